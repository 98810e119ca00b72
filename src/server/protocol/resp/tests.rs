//! Commands cut anywhere, bounds, and lines, against a reader that is plain and slow.

use proptest::prelude::*;

use super::*;

const BOUNDS: CommandBounds = CommandBounds { arguments: 6, bytes: 60 };

/// What a connection's bytes mean: commands, and the fault that ends them.
type Meaning = (Vec<Vec<Vec<u8>>>, Option<Fault>);

/// Reads bytes that come in pieces.
fn read(pieces: &[&[u8]], bounds: CommandBounds) -> Meaning {
    let (mut unread, mut commands, mut scan) = (Vec::new(), Vec::new(), Scan::default());
    let mut words = Vec::new();
    for piece in pieces {
        unread.extend_from_slice(piece);
        loop {
            let (taken, command) = match scan.scan(&unread, bounds) {
                Ok(Scanned::Partial) => break,
                Ok(Scanned::Empty(end)) => (end, None),
                Ok(Scanned::Http) => panic!("a request in HTTP"),
                Ok(Scanned::Array(end)) => (end, Some(Args::of_array(&unread[..end]))),
                Ok(Scanned::Line { text, end }) => {
                    match read_line(&unread[..text], bounds, &mut words) {
                        Ok(args) => (end, Some(args)),
                        Err(fault) => return (commands, Some(fault)),
                    }
                }
                Err(fault) => return (commands, Some(fault)),
            };
            if let Some(args) = command {
                assert_eq!(args.len(), args.count(), "as many as is said");
                commands.push(args.map(<[u8]>::to_vec).collect());
            }
            unread.drain(..taken);
        }
    }
    (commands, None)
}

/// The same of arrays that come as a whole, read as the text says. `None`: there is a fault, or
/// the end is missing.
fn plain(mut text: &str, bounds: CommandBounds) -> Option<Vec<Vec<Vec<u8>>>> {
    let mut commands = Vec::new();
    while !text.is_empty() {
        let whole = text.len();
        let mut header = |mark: char| {
            let (number, rest) = text.strip_prefix(mark)?.split_once("\r\n")?;
            text = rest;
            let digits = number.strip_prefix('-').unwrap_or(number);
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            (is_number && number.len() <= 11).then(|| number.parse::<i64>().ok()).flatten()
        };
        let count = header('*')?;
        if count <= 0 {
            continue;
        }
        let mut command = Vec::new();
        for _ in 0..count {
            let mut header = |mark: char| {
                let (number, rest) = text.strip_prefix(mark)?.split_once("\r\n")?;
                text = rest;
                let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
                (is_number && number.len() <= 11).then(|| number.parse::<usize>().ok()).flatten()
            };
            let length = header('$')?;
            let (bulk, rest) = text.split_at_checked(length)?;
            text = rest.strip_prefix("\r\n")?;
            command.push(bulk.as_bytes().to_vec());
        }
        let fits = command.len() <= bounds.arguments as usize && whole - text.len() <= bounds.bytes;
        if !fits {
            return None;
        }
        commands.push(command);
    }
    Some(commands)
}

/// Bytes near those of commands.
fn near_commands() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::collection::vec("[a-z]{0,5}", 1..4).prop_map(|words| {
            let bulks: Vec<String> =
                words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
            format!("*{}\r\n{}", words.len(), bulks.concat()).into_bytes()
        }),
        1 => Just(b"*0\r\n".to_vec()),
        1 => Just(b"*-1\r\n".to_vec()),
        1 => "[a-z\"'\\\\x0-9 ]{0,20}\r?\n".prop_map(String::into_bytes),
        1 => "[*$0-9\r\n-]{1,6}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_mean_the_same_in_any_pieces(
        input in near_commands(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = read(&[&input], BOUNDS);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([input.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let pieces: Vec<&[u8]> = starts.zip(ends).map(|(from, to)| &input[from..to]).collect();
        prop_assert_eq!(&read(&pieces, BOUNDS), &whole);
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        prop_assert_eq!(&read(&bytes, BOUNDS), &whole);
    }

    #[test]
    fn arrays_are_what_a_plain_reader_reads(input in near_commands()) {
        // The plain one reads no lines.
        let text = String::from_utf8_lossy(&input).into_owned();
        if let Some(commands) = plain(&text, BOUNDS) {
            prop_assert_eq!(read(&[text.as_bytes()], BOUNDS), (commands, None));
        }
    }

    #[test]
    fn a_command_that_is_written_is_read_again(
        words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 1..6),
    ) {
        let bulks: Vec<u8> = words.iter().flat_map(|word| {
            [format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat()
        }).collect();
        let args = Args::of_bulks(&bulks, words.len());
        let mut text = Vec::new();
        push_command(&mut text, args);
        prop_assert_eq!(text.len(), command_bytes(args));
        let bounds = CommandBounds { bytes: 1000, ..BOUNDS };
        prop_assert_eq!(read(&[&text], bounds), (vec![words], None));
    }

    #[test]
    fn any_bytes_are_arguments_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        Args::of_array(&bytes).for_each(drop);
        let mut words = Vec::new();
        if let Ok(args) = read_line(&bytes, BOUNDS, &mut words) {
            prop_assert_eq!(args.len(), args.count());
        }
    }
}

fn fault_of(input: &[u8]) -> Option<Fault> {
    read(&[input], BOUNDS).1
}

// Shows: redis-clients.
#[test]
fn what_is_over_a_bound_by_one_is_a_fault() {
    let array = |words: usize| format!("*{words}\r\n{}", "$0\r\n\r\n".repeat(words)).into_bytes();
    assert_eq!(fault_of(&array(6)), None);
    assert_eq!(fault_of(&array(7)), Some(Fault::TooManyArguments { most: 6 }));
    let long = |bytes: usize| {
        let bulk = "x".repeat(bytes - "*1\r\n$00\r\n\r\n".len());
        format!("*1\r\n${}\r\n{bulk}\r\n", bulk.len()).into_bytes()
    };
    assert_eq!((long(60).len(), fault_of(&long(60))), (60, None));
    assert_eq!(fault_of(&long(61)), Some(Fault::CommandTooLong { most: 60 }));
    // It is known from the header alone, or from the number of arguments.
    assert_eq!(fault_of(b"*1\r\n$51\r\n"), Some(Fault::CommandTooLong { most: 60 }));
    let wide = CommandBounds { arguments: 100, ..BOUNDS };
    assert_eq!(read(&[b"*9\r\n"], wide).1, None);
    assert_eq!(read(&[b"*10\r\n"], wide).1, Some(Fault::CommandTooLong { most: 60 }));
    let roomy = CommandBounds { bytes: 1 << 20, ..BOUNDS };
    let bulk = |bytes: usize| format!("*1\r\n${bytes}\r\n{}\r\n", "x".repeat(bytes)).into_bytes();
    assert_eq!(read(&[&bulk(4096)], roomy).1, None);
    assert_eq!(read(&[&bulk(4097)], roomy).1, Some(Fault::BulkTooLong { most: 4096 }));
    for end in ["\n", "\r\n"] {
        let line = |bytes: usize| ("x".repeat(2000) + " ").repeat(9)[..bytes].to_owned() + end;
        assert_eq!(read(&[line(8192).as_bytes()], roomy).1, None);
        let most = Some(Fault::LineTooLong { most: 8192 });
        assert_eq!(read(&[line(8193).as_bytes()], roomy).1, most);
        assert_eq!(read(&[&line(8193).as_bytes()[..8193]], roomy).1, most, "at once");
        assert_eq!(read(&[&line(8192).as_bytes()[..8192]], roomy).1, None);
    }
    // With its end a line is no longer than a command.
    assert_eq!(fault_of((" ".repeat(58) + "\r\n").as_bytes()), None);
    assert_eq!(fault_of((" ".repeat(59) + "\n").as_bytes()), Some(Fault::LineTooLong { most: 58 }));
}

#[test]
fn faults_are_named() {
    for (input, words) in [
        ("*x\r\n", "Protocol error: invalid multibulk length"),
        ("*\r\n", "Protocol error: invalid multibulk length"),
        ("*-\r\n", "Protocol error: invalid multibulk length"),
        ("*1\rx", "Protocol error: invalid multibulk length"),
        ("*123456789012\r\n", "Protocol error: invalid multibulk length"),
        ("*1\r\nx", "Protocol error: expected '$', got 'x'"),
        ("*1\r\n\n", "Protocol error: expected '$', got '?'"),
        ("*1\r\n$x\r\n", "Protocol error: invalid bulk length"),
        ("*1\r\n$-1\r\n", "Protocol error: invalid bulk length"),
        ("*1\r\n$1\r\nabc", "Protocol error: expected a line end behind a bulk"),
        ("PING \"a\r\n", "Protocol error: unbalanced quotes in request"),
        ("PING \"a\"b\r\n", "Protocol error: unbalanced quotes in request"),
        (
            "\u{16}\u{3}\u{1}",
            "Protocol error: expected a command of RESP, not TLS or other binary data",
        ),
    ] {
        assert_eq!(fault_of(input.as_bytes()).map(|it| it.to_string()).as_deref(), Some(words));
    }
}

#[test]
fn words_of_a_line_are_those_that_redis_reads() {
    for (line, expected) in [
        ("PING", &["PING"][..]),
        ("  a\tb  c ", &["a", "b", "c"]),
        ("a \"b c\" 'd e'", &["a", "b c", "d e"]),
        ("\"\\x41\\n\\r\\t\\q\\\"\"", &["A\n\r\tq\""]),
        ("'it\\'s' \"\"", &["it's", ""]),
        ("a'b c'", &["ab c"]),
    ] {
        let mut words = Vec::new();
        let args = read_line(line.as_bytes(), BOUNDS, &mut words).expect("words");
        let read: Vec<&[u8]> = args.collect();
        assert_eq!(read, expected.iter().map(|word| word.as_bytes()).collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn what_a_client_sends_makes_no_line_of_its_own() {
    let mut out = Vec::new();
    Writer::new(&mut out, Version::Two).error(CommandError::Unknown(b"a\r\n+OK\r\n\xFF"));
    assert_eq!(out, b"-ERR unknown command 'a??+OK???' (see docs/redis.md)\r\n");
    let long = CommandError::Unknown(&[b'x'; 4096]).to_string();
    assert!(long.len() < 180 && long.contains("xxx..."), "{long}");
}
