//! Random calls of Redis' commands over registers: right ones, and wrong ones of every kind.
//!
//! Invariant: what a call does is the same on every server, whichever millisecond it comes in:
//! times are far in the future, in the past, or over before the next call.

/// splitmix64 (Steele, Lea, Flood 2014).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }
}

/// A call.
#[derive(Debug, Clone)]
pub struct Call {
    pub words: Vec<Vec<u8>>,
    /// A register may expire within the next milliseconds.
    pub expires_soon: bool,
}

impl Call {
    pub fn of(words: &[&str]) -> Call {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Call { words, expires_soon: false }
    }

    /// Its name in upper case.
    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.words[0]).to_uppercase()
    }

    /// Its words, to be read.
    pub fn shown(&self) -> String {
        let words = self.words.iter().map(|word| word.escape_ascii().to_string());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The bytes of the only key that is longer than the key fields.
pub const LONG_KEY_BYTES: usize = 200;

/// Options whose value is a time.
const TIMED: [&str; 4] = ["EX", "PX", "EXAT", "PXAT"];

/// The commands with a number of seconds or milliseconds.
const EXPIRES: [(&str, &str); 4] =
    [("EXPIRE", "EX"), ("PEXPIRE", "PX"), ("EXPIREAT", "EXAT"), ("PEXPIREAT", "PXAT")];

/// Makes calls.
pub struct Calls {
    pub chance: Chance,
    /// The time of the clock in seconds, when the calls began.
    pub now_s: u64,
}

impl Calls {
    fn key(&mut self) -> Vec<u8> {
        match self.chance.below(40) {
            0 => Vec::new(),
            1 => vec![b'x'; LONG_KEY_BYTES],
            2 => b"db3:a".to_vec(),
            3 => "caf\u{e9}".as_bytes().to_vec(),
            4 => b"two words".to_vec(),
            nth => format!("key:{}", nth % 12).into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let number = self.chance.next() as i64;
        match self.chance.below(12) {
            0 => Vec::new(),
            1 => vec![b'y'; 64],
            2 => b"\x00\xff\r\n".to_vec(),
            3 => b"007".to_vec(),
            4 => number.to_string().into_bytes(),
            5 => self.chance.pick(&["9223372036854775807", "-9223372036854775808"]).into(),
            6 => self.chance.pick(&["9223372036854775808", "1.5", " 1", "+1", "-0"]).into(),
            7 | 8 => b"some text".to_vec(),
            _ => (number % 1000).to_string().into_bytes(),
        }
    }

    fn number(&mut self) -> String {
        let number = self.chance.next() as i64;
        match self.chance.below(12) {
            0 => self.chance.pick(&["x", "", "1.5", "01", "+1", "1 "]).to_owned(),
            1 => number.to_string(),
            2 => self.chance.pick(&["9223372036854775807", "-9223372036854775808"]).to_owned(),
            3 => "9223372036854775808".to_owned(),
            _ => (number % 100).to_string(),
        }
    }

    /// A time for an option, and whether it comes soon. Of `odd` times each is far from each that
    /// is not.
    fn time(&mut self, option: &str, odd: bool) -> (String, bool) {
        let far = 2000 * (1 + self.chance.below(50) as i64) + if odd { 1000 } else { 0 };
        let now = self.now_s as i64;
        let seconds = match self.chance.below(16) {
            0 => return (self.number_that_is_no_time(), false),
            1 => return (self.chance.pick(&["0", "-1", "-100000"]).to_owned(), false),
            2 if option.starts_with("EX") => {
                return (self.chance.pick(&["9223372036854775", "9223372036854776"]).into(), false);
            }
            2 => {
                let far = ["9223372036854775807", "9223370000000000000"];
                return (self.chance.pick(&far).to_owned(), false);
            }
            3 if option == "PX" => return ("1".to_owned(), true),
            4 if option.ends_with("AT") => self.chance.below(1000) as i64 + 1,
            _ if option.ends_with("AT") => now + far,
            _ => far,
        };
        let unit = if option.starts_with('P') { 1000 } else { 1 };
        ((seconds * unit).to_string(), false)
    }

    fn number_that_is_no_time(&mut self) -> String {
        self.chance.pick(&["x", "", "1.5", "9223372036854775808", "-9223372036854775808"]).into()
    }

    /// The next call.
    pub fn call(&mut self) -> Call {
        let mut call = self.right_call();
        // Of COMMAND, frs has subcommands of its own.
        if call.name() != "COMMAND" && self.chance.once_in(8) {
            let at = 1 + self.chance.below(call.words.len());
            match self.chance.below(4) {
                0 => call.words.truncate(at),
                1 => {
                    let word = self.word();
                    call.words.insert(at, word);
                }
                2 => call.words.push(self.word()),
                _ => call.words[0].make_ascii_lowercase(),
            }
        }
        call
    }

    /// A word that may be wrong where it stands.
    fn word(&mut self) -> Vec<u8> {
        let all = ["EX", "px", "NX", "XX", "GT", "KEEPTTL", "GET", "PERSIST", "FOO", "10", "COUNT"];
        self.chance.pick(&all).into()
    }

    fn right_call(&mut self) -> Call {
        let mut call = Call::of(&[]);
        let push = |call: &mut Call, word: &str| call.words.push(word.as_bytes().to_vec());
        match self.chance.below(31) {
            0..=2 => {
                push(&mut call, self.chance.pick(&["INCR", "DECR"]));
                call.words.push(self.key());
            }
            3 | 4 => {
                push(&mut call, self.chance.pick(&["INCRBY", "DECRBY"]));
                call.words.push(self.key());
                push(&mut call, &self.number());
            }
            5..=8 => self.set(&mut call),
            9 => {
                let (word, option) = [("SETEX", "EX"), ("PSETEX", "PX")][self.chance.below(2)];
                push(&mut call, word);
                call.words.push(self.key());
                let (time, soon) = self.time(option, false);
                push(&mut call, &time);
                call.expires_soon = soon;
                call.words.push(self.value());
            }
            10 => {
                push(&mut call, self.chance.pick(&["SETNX", "GETSET"]));
                call.words.extend([self.key(), self.value()]);
            }
            11..=14 => {
                let words = ["GET", "GETDEL", "STRLEN", "TYPE", "PERSIST"];
                push(&mut call, self.chance.pick(&words));
                call.words.push(self.key());
            }
            15 | 16 => {
                push(&mut call, "GETEX");
                call.words.push(self.key());
                match self.chance.below(4) {
                    0 => push(&mut call, "PERSIST"),
                    1 => {}
                    _ => self.option(&mut call, false),
                }
            }
            17..=20 => {
                let words = ["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"];
                push(&mut call, self.chance.pick(&words));
                call.words.push(self.key());
            }
            21..=24 => {
                let (word, option) = EXPIRES[self.chance.below(4)];
                push(&mut call, word);
                call.words.push(self.key());
                let conditions = self.chance.below(3).saturating_sub(1);
                let (time, soon) = self.time(option, conditions > 0);
                push(&mut call, &time);
                call.expires_soon = soon;
                for _ in 0..conditions * (1 + self.chance.below(2)) {
                    push(&mut call, self.chance.pick(&["NX", "XX", "GT", "LT", "gt"]));
                }
            }
            25..=27 => {
                let words = ["MGET", "EXISTS", "DEL", "UNLINK", "TOUCH", "EXISTS", "MGET"];
                push(&mut call, self.chance.pick(&words));
                let few = 1 + self.chance.below(4);
                let keys = if self.chance.once_in(20) { 40 } else { few };
                for _ in 0..keys {
                    call.words.push(self.key());
                }
            }
            28 => {
                push(&mut call, "SELECT");
                push(&mut call, self.chance.pick(&["0", "0", "3", "15", "16", "-1", "x"]));
            }
            29 => {
                push(&mut call, self.chance.pick(&["SCAN", "SCAN", "DBSIZE", "TIME"]));
                if call.name() == "SCAN" {
                    push(&mut call, self.chance.pick(&["0", "0", "0", "7", "x", "", "-1", " 0"]));
                    for _ in 0..self.chance.below(3) {
                        let options = ["COUNT", "match", "TYPE", "FOO"];
                        push(&mut call, self.chance.pick(&options));
                        let values = ["10", "0", "-5", "x", "key:*", "string", "list", ""];
                        push(&mut call, self.chance.pick(&values));
                    }
                }
            }
            _ => {
                push(&mut call, "COMMAND");
                push(&mut call, "GETKEYS");
                let other = self.right_call();
                // Redis asks for the keys of a command within COMMAND, too.
                if other.name() != "COMMAND" {
                    call.words.extend(other.words);
                }
            }
        }
        call
    }

    fn set(&mut self, call: &mut Call) {
        call.words.extend([b"SET".to_vec(), self.key(), self.value()]);
        for _ in 0..self.chance.below(3) {
            match self.chance.below(6) {
                0 => call.words.push(self.chance.pick(&["NX", "nx", "XX"]).into()),
                1 => call.words.push(b"GET".to_vec()),
                2 => call.words.push(b"KEEPTTL".to_vec()),
                _ => self.option(call, false),
            }
        }
    }

    /// An option with a time.
    fn option(&mut self, call: &mut Call, odd: bool) {
        let option = self.chance.pick(&TIMED);
        let (time, soon) = self.time(option, odd);
        call.words.extend([option.as_bytes().to_vec(), time.into_bytes()]);
        call.expires_soon |= soon;
    }
}
