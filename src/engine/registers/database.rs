//! The database of a register, as a part of its key.
//!
//! Invariant: two keys are stored alike only if database and text are the same. A key of database 0
//! is stored as it is sent, unless it is empty or looks like one of another database.
//!
//! ```text
//! database 0, `user:7`     user:7
//! database 3, `user:7`     db3:user:7
//! database 0, `db3:user:7` db0:db3:user:7
//! ```

use std::io::Write as _;

/// The text under which the key of a database is stored. `buffer` may hold it.
pub fn stored_key<'k>(database: u16, key: &'k [u8], buffer: &'k mut Vec<u8>) -> &'k [u8] {
    if database == 0 && !key.is_empty() && marked(key).is_none() {
        return key;
    }
    buffer.clear();
    // A vector takes all that is written to it.
    let _ = write!(buffer, "db{database}:");
    buffer.extend_from_slice(key);
    buffer
}

/// The database and the key of a stored text.
pub fn database_of(stored: &[u8]) -> (u16, &[u8]) {
    marked(stored).unwrap_or((0, stored))
}

/// The database and the key of a text that begins with the mark of a database.
fn marked(text: &[u8]) -> Option<(u16, &[u8])> {
    let rest = text.strip_prefix(b"db")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, key) = rest.split_at(digits);
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    Some((number, key.strip_prefix(b":")?))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn keys_of_databases_never_meet() {
        let texts: [&[u8]; 9] =
            [b"", b"a", b"db0:a", b"db3:a", b"db03:a", b"db3", b"db:a", b"db0:db3:a", b"db70000:a"];
        let mut seen = HashMap::new();
        for database in [0, 1, 3, 30, 1023] {
            for text in texts {
                let stored = stored_key(database, text, &mut Vec::new()).to_vec();
                assert_eq!(database_of(&stored), (database, text));
                assert_eq!(seen.insert(stored, (database, text)), None);
            }
        }
        assert_eq!(stored_key(0, b"db3", &mut Vec::new()), b"db3", "most keys stay as they are");
        assert_eq!(stored_key(3, b"user:7", &mut Vec::new()), b"db3:user:7");
    }
}
