//! Tests of the frames as bytes.

use frs_conf::key::KeyForm;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(frame, &mut bytes);
    bytes
}

/// The first frame of these bytes, which must be encoded as it came.
fn taken(bytes: &[u8]) -> Result<Option<Frame>, BadFrame> {
    let Some((frame, size)) = take(bytes)? else { return Ok(None) };
    assert_eq!(bytes_of(&frame), bytes[..size], "{frame:?}");
    Ok(Some(frame))
}

/// A frame of this kind with this body.
fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 1).to_le_bytes();
    [&length[..], &[kind], body].concat()
}

fn key_of(biz: u32, form: KeyForm, bytes: &[u8]) -> StoredKey {
    let mut field = [0; MAX_KEY_WORDS];
    for (word, chunk) in field.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(whole);
    }
    StoredKey { key_word: node::key_word(biz, form as u8, bytes.len() as u16), field }
}

fn key() -> impl Strategy<Value = StoredKey> {
    let form_and_bytes = prop_oneof![
        vec(any::<u8>(), 1..=8 * MAX_KEY_WORDS).prop_map(|bytes| (KeyForm::Text, bytes)),
        any::<[u8; 8]>().prop_map(|bytes| (KeyForm::Integer, bytes.to_vec())),
        any::<[u8; 4]>().prop_map(|bytes| (KeyForm::V4, bytes.to_vec())),
        any::<[u8; 16]>().prop_map(|bytes| (KeyForm::V6, bytes.to_vec())),
        any::<[u8; 16]>().prop_map(|bytes| (KeyForm::Digest, bytes.to_vec())),
        Just((KeyForm::Biz, Vec::new())),
    ];
    (any::<u32>(), form_and_bytes).prop_map(|(biz, (form, bytes))| key_of(biz, form, &bytes))
}

fn content() -> impl Strategy<Value = KeptRecord> {
    let head = (any::<u16>(), any::<u16>(), any::<u64>(), any::<u64>());
    let states = vec(any::<u64>(), 0..20);
    (head, states, any::<Option<u64>>()).prop_map(|(head, states, ban_begun_ms)| {
        let (shape, flags, epoch, last_use_ms) = head;
        let ban_begun_ms = ban_begun_ms.filter(|_| !states.is_empty());
        let ban = if ban_begun_ms.is_some() { node::FLAG_BAN } else { 0 };
        let check = node::check_word(shape, (flags | ban) & !node::FLAG_BEGUN);
        KeptRecord { check, epoch, last_use_ms, ban_begun_ms, states }
    })
}

prop_compose! {
    fn record()(key in key(), version in any::<[u64; 2]>(), content in content()) -> Record {
        Record { key, version, content }
    }
}

prop_compose! {
    fn hello()(
        format in any::<u32>(), name in name(), owner in any::<u32>(), nonce in any::<[u8; 16]>(),
    ) -> Hello {
        Hello { format, name, owner, nonce }
    }
}

prop_compose! {
    fn digests()(
        compare in any::<u32>(),
        group in name(),
        (part_bits, first, digests) in (6..=PART_BITS_MAX)
            .prop_flat_map(|bits| (Just(bits), 0..=(1_u32 << bits) - 40, vec(digest(), 0..=40))),
        is_last in any::<bool>(),
    ) -> Frame {
        Frame::Digests { compare, group, part_bits, first, is_last, digests }
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9é-]{0,16}"
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<(u64, u32)>().prop_map(|(sum, count)| Digest { sum, count })
}

fn records() -> impl Strategy<Value = Frame> {
    let parts = (any::<u64>(), vec(record(), 0..5));
    parts.prop_map(|(ordinal, records)| Frame::Records { ordinal, records })
}

fn frame() -> impl Strategy<Value = Frame> {
    let proof = || any::<[u8; 32]>().prop_map(Proof);
    let group = (name(), any::<u32>()).prop_map(|(name, key_bytes)| GroupName { name, key_bytes });
    let epoch = any::<(u32, u64)>().prop_map(|(biz, epoch)| EpochOf { biz, epoch });
    let numbers = || vec(any::<u32>(), 0..40);
    let small = prop_oneof![
        hello().prop_map(Frame::Hello),
        (hello(), proof()).prop_map(|(hello, proof)| Frame::Welcome(hello, proof)),
        proof().prop_map(Frame::Proof),
        Just(Frame::Accepted),
        any::<String>().prop_map(|reason| Frame::refused(&reason)),
        any::<u64>().prop_map(|sent_ms| Frame::Clock { sent_ms }),
        any::<(u64, u64)>().prop_map(|(sent_ms, here_ms)| Frame::Clocks { sent_ms, here_ms }),
        any::<bool>().prop_map(|is_leaving| Frame::Leaving { is_leaving }),
        Just(Frame::Left),
        name().prop_map(|group| Frame::Compared { group }),
    ];
    let large =
        prop_oneof![
            vec(group, 0..10).prop_map(Frame::Groups),
            records(),
            (any::<(u64, u32)>(), numbers()).prop_map(|((ordinal, newer), again)| Frame::Kept {
                ordinal,
                newer,
                again
            }),
            digests(),
            (any::<(u32, bool)>(), numbers())
                .prop_map(|((compare, is_last), parts)| Frame::Differ { compare, parts, is_last }),
            (any::<u64>(), key()).prop_map(|(id, key)| Frame::Ask { id, key }),
            (any::<u64>(), proptest::option::of(record()))
                .prop_map(|(id, record)| Frame::Answer { id, record }),
            vec(epoch, 0..40).prop_map(Frame::Epochs),
        ];
    prop_oneof![small, large]
}

fn plain_record() -> Record {
    let content = KeptRecord {
        check: node::check_word(7, node::FLAG_BAN | 3),
        epoch: 3,
        last_use_ms: 1_700_000_000_000,
        ban_begun_ms: Some(1_699_999_999_000),
        states: vec![5, 1 << 63, 9],
    };
    Record { key: key_of(1, KeyForm::Text, b"a key of 17 bytes"), version: [1, 2], content }
}

proptest! {
    #[test]
    fn every_frame_is_taken_as_it_was_put(frames in vec(frame(), 1..4)) {
        let mut bytes = b"before".to_vec();
        frames.iter().for_each(|frame| put(frame, &mut bytes));
        let mut rest = &bytes[6..];
        for frame in &frames {
            let (found, size) = take(rest).unwrap().unwrap();
            prop_assert_eq!(&found, frame);
            rest = &rest[size..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_part_of_a_frame_is_incomplete(frame in frame()) {
        let bytes = bytes_of(&frame);
        for size in 0..bytes.len() {
            prop_assert_eq!(take(&bytes[..size]), Ok(None));
        }
    }

    #[test]
    fn a_frame_that_states_fewer_or_more_bytes_is_an_error(frame in frame()) {
        let bytes = bytes_of(&frame);
        for size in HEAD..bytes.len() {
            let cut = framed(bytes[LENGTH], &bytes[HEAD..size]);
            prop_assert!(taken(&cut).is_err(), "{} of {} bytes", size, bytes.len());
        }
        let long = framed(bytes[LENGTH], &[&bytes[HEAD..], &[0]].concat());
        prop_assert_eq!(take(&long), Err(BadFrame::Trailing(1)));
    }

    #[test]
    fn a_frame_of_records_has_the_bytes_of_its_records(records in vec(record(), 0..5)) {
        let size = records.iter().map(record_bytes).sum::<usize>();
        let bytes = bytes_of(&Frame::Records { ordinal: 1, records });
        prop_assert_eq!(bytes.len(), FRAME_MAX - RECORDS_MAX + size);
    }

    #[test]
    fn a_bit_that_flips_in_records_changes_no_key_and_no_content(
        ordinal in any::<u64>(), records in vec(record(), 1..4),
    ) {
        let mut bytes = bytes_of(&Frame::Records { ordinal, records: records.clone() });
        let parts = |records: &[Record]| -> Vec<_> {
            records.iter().map(|record| (record.key, record.content.clone())).collect()
        };
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Only the ordinal and the versions have no CRC.
            if let Ok(Some(found)) = taken(&bytes) {
                let Frame::Records { ordinal: other, records: found } = found else {
                    panic!("bit {bit}: {found:?}")
                };
                prop_assert_eq!(parts(&found), parts(&records), "bit {}", bit);
                prop_assert!(other != ordinal || found != records, "bit {}", bit);
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_frame(
        frame in frame(), changes in vec(any::<(prop::sample::Index, u8)>(), 1..4),
        kind in 0_u8..20, body in vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = bytes_of(&frame);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = taken(&bytes);
        let _ = taken(&framed(kind, &body));
        let _ = taken(&body);
    }
}

#[test]
fn the_bytes_of_a_frame_stay_the_same() {
    let frame = Frame::Records { ordinal: 258, records: vec![plain_record()] };
    let bytes = bytes_of(&frame);
    assert_eq!(bytes[..HEAD + 12], [119, 0, 0, 0, 7, 2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    let record = &bytes[HEAD + 12..];
    assert_eq!(record.len(), 16 + 8 + 24 + 2 + 7 * 8);
    assert_eq!(record[..24], *b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x11\0\0\0");
    assert_eq!(record[24..48], *b"a key of 17 bytes\0\0\0\0\0\0\0");
    assert_eq!(record[48..50], [7, 0]);
    let hello = Hello { format: 1, name: "prod".into(), owner: 2, nonce: [3; 16] };
    let expected = b"\x1f\0\0\0\x01\x01\0\0\0\x02\0\0\0\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03\
        \x03\x03\x03\x03\x03\x03\x04\0prod";
    assert_eq!(bytes_of(&Frame::Hello(hello)), expected);
    assert_eq!(bytes_of(&Frame::Left), [1, 0, 0, 0, 18]);
}

#[test]
fn a_length_beyond_the_bound_is_refused_before_its_bytes_come() {
    let length = |size: usize| (size as u32 - 4).to_le_bytes();
    assert_eq!(take(&length(FRAME_MAX)), Ok(None));
    let error = take(&length(FRAME_MAX + 1)).unwrap_err().to_string();
    assert_eq!(error, "found a frame of 1048577 bytes, expected 5 to 1048576");
    assert_eq!(take_within(&length(HANDSHAKE_FRAME_MAX), HANDSHAKE_FRAME_MAX), Ok(None));
    let error = take_within(&length(HANDSHAKE_FRAME_MAX + 1), HANDSHAKE_FRAME_MAX).unwrap_err();
    assert_eq!(error, BadFrame::Length { found: 1025, most: 1024 });
    assert!(take_within(&[0xff; 4], usize::MAX).is_err(), "no caller goes beyond FRAME_MAX");
    assert!(take(&[0; 4]).is_err(), "a frame has a kind");
}

#[test]
fn a_count_beyond_the_bytes_that_have_come_allocates_nothing() {
    for (kind, before) in [(6, 0), (7, 8), (8, 12), (10, 5), (14, 0)] {
        for count in [1, 2, 1 << 20, u32::MAX] {
            let body = [&vec![0; before][..], &count.to_le_bytes()].concat();
            let error = take(&framed(kind, &body)).unwrap_err();
            assert!(matches!(error, BadFrame::Short { found: 0, .. }), "kind {kind}: {error}");
        }
    }
    let digests = [&[0; 12][..], &u32::MAX.to_le_bytes(), &[0; 100]].concat();
    let error = take(&framed(9, &digests)).unwrap_err().to_string();
    let expected = u64::from(u32::MAX) * 12;
    assert_eq!(error, format!("found 100 more bytes in a frame, expected {expected} for digests"));
}

/// The largest frames that the bounds allow are taken, and those beyond them are not.
#[test]
fn as_much_as_the_bounds_allow_fits_a_frame() {
    let group = "g".repeat(NAME_MAX);
    let digest = Digest { sum: u64::MAX, count: u32::MAX };
    let record = plain_record();
    let most = RECORDS_MAX / record_bytes(&record);
    let frames = [
        Frame::Digests {
            compare: 1,
            group,
            part_bits: PART_BITS_MAX,
            first: 0,
            is_last: true,
            digests: vec![digest; DIGESTS_MAX],
        },
        Frame::Differ { compare: 1, parts: vec![u32::MAX; PARTS_MAX], is_last: false },
        Frame::Epochs(vec![EpochOf { biz: 1, epoch: u64::MAX }; EPOCHS_MAX]),
        Frame::Records { ordinal: 1, records: vec![record; most] },
        Frame::Kept { ordinal: 1, newer: 0, again: (0..most as u32).collect() },
    ];
    for frame in frames {
        let bytes = bytes_of(&frame);
        assert!(bytes.len() <= FRAME_MAX);
        assert!(taken(&bytes) == Ok(Some(frame)));
    }
}

#[test]
fn a_wrong_field_is_told_with_what_was_expected() {
    let text = |length: u16, bytes: &[u8]| [&length.to_le_bytes()[..], bytes].concat();
    let digests = |bits: u8, first: u32, count: u32| {
        let head = [&[0; 4][..], &[bits], &first.to_le_bytes(), &[1, 0, 0]].concat();
        [&head[..], &count.to_le_bytes(), &vec![0; 12 * count as usize]].concat()
    };
    for (kind, body, words) in [
        (0, vec![], "found a frame of kind 0, expected 1 to 18"),
        (19, vec![], "found a frame of kind 19, expected 1 to 18"),
        (18, vec![0; 3], "found 3 bytes after the last field of a frame, expected none"),
        (3, vec![0; 31], "found 31 more bytes in a frame, expected 32 for a proof"),
        (17, vec![2], "found the byte 2 for leaving, expected 0 or 1"),
        (13, vec![9; 9], "found the byte 9 for a record, expected 0 or 1"),
        (11, text(33, &[b'a'; 33]), "found the name of a group of 33, expected at most 32"),
        (11, text(1, b"\xff"), "found other bytes in the name of a group, expected UTF-8"),
        (5, text(1, b"\n"), "found other bytes in a reason, expected UTF-8 without control"),
        (5, text(401, &[b'a'; 401]), "found a reason of 401, expected at most 400"),
        (9, digests(25, 0, 0), "found part bits of 25, expected at most 24"),
        (9, digests(2, 3, 2), "found a last part of 5, expected at most 4"),
    ] {
        let error = take(&framed(kind, &body)).unwrap_err().to_string();
        assert!(error.starts_with(words), "kind {kind}: {error}");
    }
    assert!(take(&framed(9, &digests(2, 3, 1))).is_ok());
}

#[test]
fn a_key_that_no_host_stores_is_refused() {
    let word = |form: u8, length: u16| node::key_word(1, form, length);
    let ask = |key_word: u64, words: &[u64]| {
        let numbers = [&[0, key_word], words].concat();
        take(&framed(12, &numbers.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()))
    };
    assert!(ask(word(KeyForm::Biz as u8, 0), &[]).is_ok());
    assert!(ask(word(KeyForm::Text as u8, 256), &[1; 32]).is_ok());
    for (key_word, words) in [
        (word(KeyForm::Text as u8, 0), &[][..]),
        (word(KeyForm::Text as u8, 257), &[1; 33]),
        (word(KeyForm::Text as u8, u16::MAX), &[]),
        (word(KeyForm::Text as u8, 7), &[u64::MAX]),
        (word(KeyForm::Biz as u8, 8), &[1]),
        (word(KeyForm::Integer as u8, 4), &[1]),
        (word(6, 8), &[1]),
        (word(KeyForm::Integer as u8, 8) | 1 << 56, &[1]),
    ] {
        assert_eq!(ask(key_word, words), Err(BadFrame::Key(key_word)), "{key_word:#x}");
    }
}

/// The CRC covers the same words in both cases, in the same order.
#[test]
fn a_state_is_not_taken_for_the_time_of_a_ban() {
    let mut record = plain_record();
    for flags in [0, node::FLAG_BAN] {
        record.content.check = node::check_word(7, flags);
        (record.content.ban_begun_ms, record.content.states) = (None, vec![5]);
        let frame = Frame::Answer { id: 1, record: Some(record.clone()) };
        let mut bytes = bytes_of(&frame);
        assert_eq!(taken(&bytes), Ok(Some(frame)));
        let flag = bytes.len() - 4 * 8 + 7;
        bytes[flag] ^= (node::FLAG_BEGUN >> 8) as u8;
        assert_eq!(take(&bytes), Err(BadFrame::Content));
    }
}

#[test]
fn a_content_of_another_key_is_refused() {
    let frame = Frame::Answer { id: 1, record: Some(plain_record()) };
    let mut bytes = bytes_of(&frame);
    let key = HEAD + 9 + VERSION + KEY_MIN;
    assert_eq!(bytes[key..key + 5], *b"a key");
    bytes[key] = b'b';
    assert_eq!(take(&bytes), Err(BadFrame::Content));
    let words = key + 24;
    let empty = [&bytes[HEAD..words], &[0, 0], &[0; 24]].concat();
    assert_eq!(take(&framed(13, &empty)), Err(BadFrame::Content));
}
