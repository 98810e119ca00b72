//! The patterns of SCAN, as Redis reads them.
//!
//! Invariant: the time is bounded by the product of the lengths, whatever the pattern. SCAN bounds
//! the pattern, and looks at fewer keys in one call the longer it is.

/// Whether `text` as a whole is what `pattern` says: `*` any bytes, `?` one byte, `[…]` one of a
/// set, `[^…]` one of all others, `\` before a byte that stands for itself.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        // So it is in Redis: no star is looked at without text.
        return pattern.is_empty();
    }
    let (mut at, mut rest) = (pattern, text);
    // Where to go on if the rest does not match: the pattern behind the last star, and the text
    // from which on it was tried.
    let mut last_star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', behind @ ..] = at {
            last_star = Some((behind, rest));
            at = behind;
            continue;
        }
        let Some((&byte, tail)) = rest.split_first() else { return at.is_empty() };
        if let Some(behind) = one(at, byte) {
            (at, rest) = (behind, tail);
        } else if let Some((behind, [_, tried @ ..])) = last_star {
            (at, rest) = (behind, tried);
            last_star = Some((behind, tried));
        } else {
            return false;
        }
    }
}

/// The pattern behind its first element, if that stands for this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', behind @ ..] => Some(behind),
        [b'[', set @ ..] => one_of(set, byte),
        [b'\\', literal, behind @ ..] | [literal, behind @ ..] => {
            (*literal == byte).then_some(behind)
        }
    }
}

/// The pattern behind a set, if the byte is in it. A set that does not end ends with the pattern.
fn one_of(set: &[u8], byte: u8) -> Option<&[u8]> {
    let (is_not, mut at) = match set {
        [b'^', behind @ ..] => (true, behind),
        _ => (false, set),
    };
    let mut is_in = false;
    let behind = loop {
        at = match at {
            [] => break at,
            [b'\\', literal, behind @ ..] => {
                is_in |= *literal == byte;
                behind
            }
            [b']', behind @ ..] => break behind,
            [low, b'-', high, behind @ ..] => {
                is_in |= (*low.min(high)..=*low.max(high)).contains(&byte);
                behind
            }
            [literal, behind @ ..] => {
                is_in |= *literal == byte;
                behind
            }
        };
    };
    (is_in != is_not).then_some(behind)
}
