//! Keys of every type in the form that nodes store.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::schema::{Geometry, HashKind};

const SEED: Seed = Seed([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
const IP64: KeyType = KeyType::Ip { ipv6_prefix: 64 };

fn geometry(files: u32, key_nodes: u32, hash: HashKind) -> Geometry {
    Geometry { files, key_nodes, chain: 56, node_bytes: 128, key_bytes: 24, hash }
}

fn encoded(key_type: KeyType, text: &str) -> Result<KeyField, BadKey> {
    let words = [0x5a5a_5a5a_5a5a_5a5a; MAX_KEY_WORDS];
    let mut field = KeyField { words, ..KeyField::default() };
    field.encode(key_type, text.as_bytes(), 24, SEED).map(|()| field)
}

fn shown(key_type: KeyType, text: &str) -> Result<String, BadKey> {
    encoded(key_type, text).map(|field| field.key().to_string())
}

fn parts(key_type: KeyType, text: &str) -> (Vec<u64>, u16, KeyForm) {
    let field = encoded(key_type, text).unwrap();
    let key = field.key();
    (key.words().to_vec(), key.bytes(), key.form())
}

#[test]
fn text_is_stored_as_its_bytes_in_zero_padded_little_endian_words() {
    let word = u64::from_le_bytes(*b"alice\0\0\0");
    assert_eq!(parts(KeyType::String, "alice"), (vec![word], 5, KeyForm::Text));
    let two = [*b"abcdefgh", *b"i\0\0\0\0\0\0\0"].map(u64::from_le_bytes);
    assert_eq!(parts(KeyType::String, "abcdefghi"), (two.to_vec(), 9, KeyForm::Text));
}

#[test]
fn a_string_longer_than_the_key_field_is_its_digest() {
    let fits = "x".repeat(24);
    let longer = "x".repeat(25);
    assert_eq!(parts(KeyType::String, &fits).2, KeyForm::Text);
    assert_eq!(parts(KeyType::String, &longer).1, 16);
    assert_eq!(parts(KeyType::String, &longer), parts(KeyType::Digest, &longer));
    assert_ne!(parts(KeyType::Digest, &fits), parts(KeyType::Digest, &longer));
    assert!(shown(KeyType::Digest, "x").unwrap().starts_with("digest:"));
    assert_eq!(shown(KeyType::Digest, "x").unwrap().len(), 7 + 32);
}

#[test]
fn the_digest_is_keyed_by_both_words_of_the_seed() {
    let digest = |seed| {
        let mut field = KeyField::default();
        field.encode(KeyType::Digest, b"x", 24, seed).unwrap();
        field.key().words().to_vec()
    };
    let Seed([a, b]) = SEED;
    assert_ne!(digest(SEED), digest(Seed([a ^ 1, b])));
    assert_ne!(digest(SEED), digest(Seed([a, b ^ 1])));
}

#[test]
fn a_string_has_1_to_1024_bytes() {
    for key_type in [KeyType::String, KeyType::Digest, KeyType::Integer, IP64] {
        assert_eq!(encoded(key_type, "").err(), Some(BadKey::Length(0)));
        let long = "0".repeat(1025);
        assert_eq!(encoded(key_type, &long).err(), Some(BadKey::Length(1025)));
    }
    assert!(encoded(KeyType::String, &"é".repeat(512)).is_ok());
}

#[test]
fn a_string_holds_what_xml_allows() {
    for code in (0..0x1_0000).filter_map(char::from_u32) {
        let forbidden = matches!(u32::from(code), 0..=8 | 11 | 12 | 14..=31 | 0xfffe | 0xffff);
        for text in [format!("{code}"), format!("0123456{code}"), format!("01234567é{code}8")] {
            let expected = forbidden.then_some(BadKey::Character);
            assert_eq!(encoded(KeyType::String, &text).err(), expected, "{text:?}");
            assert_eq!(encoded(KeyType::Digest, &text).err(), expected, "{text:?}");
        }
    }
}

#[test]
fn an_integer_is_the_decimal_digits_of_a_u64() {
    assert_eq!(shown(KeyType::Integer, "18829340001").unwrap(), "18829340001");
    assert_eq!(shown(KeyType::Integer, "0000000000000000000000000000042").unwrap(), "42");
    assert_eq!(shown(KeyType::Integer, "000").unwrap(), "0");
    assert_eq!(parts(KeyType::Integer, "18446744073709551615").0, [u64::MAX]);
    for bad in ["18446744073709551616", "99999999999999999999", "-1", "+1", "1 ", " 1", "1.0"] {
        assert_eq!(encoded(KeyType::Integer, bad).err(), Some(BadKey::NotInteger), "{bad}");
    }
    for bad in ["0x1", "1e3", "a", "١"] {
        assert_eq!(encoded(KeyType::Integer, bad).err(), Some(BadKey::NotInteger), "{bad}");
    }
}

#[test]
fn an_address_is_v4_or_v6_cut_to_the_prefix() {
    assert_eq!(parts(IP64, "1.2.3.4"), (vec![0x0403_0201], 4, KeyForm::V4));
    assert_eq!(parts(IP64, "::ffff:1.2.3.4"), parts(IP64, "1.2.3.4"));
    assert_eq!(parts(IP64, "::ffff:102:304"), parts(IP64, "1.2.3.4"));
    let cut = [u64::from_le_bytes([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1]), 0];
    assert_eq!(parts(IP64, "2001:db8:0:1:2:3:4:5"), (cut.to_vec(), 16, KeyForm::V6));
    assert_eq!(shown(IP64, "2001:DB8:0:1::9").unwrap(), "2001:db8:0:1::");
    for (prefix, address) in [
        (1, "8000::"),
        (16, "ffff::"),
        (60, "ffff:ffff:ffff:fff0::"),
        (127, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"),
        (128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ] {
        let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(shown(KeyType::Ip { ipv6_prefix: prefix }, all).unwrap(), address);
    }
}

#[test]
fn ports_brackets_zones_and_sloppy_addresses_are_bad() {
    let bad = ["1.2.3.4:80", "[::1]", "[::1]:80", "fe80::1%eth0", "fe80::1%1", "1.2.3", "01.2.3.4"];
    for text in bad.into_iter().chain(["1.2.3.256", " 1.2.3.4", "::1/64", "localhost", "::1::"]) {
        assert_eq!(encoded(IP64, text).err(), Some(BadKey::NotAddress), "{text}");
    }
}

#[test]
fn only_what_an_encoder_writes_is_a_stored_key() {
    let stored = |field: &[u64], bytes, form| KeyRef::from_stored(field, bytes, form).is_some();
    assert!(stored(&[0x6261, 0, 0], 2, 0));
    assert!(!stored(&[0x6261, 0, 0], 1, 0)); // padding in the word
    assert!(!stored(&[0x6261, 0, 1], 2, 0)); // padding beyond it
    assert!(!stored(&[0x6261], 9, 0)); // longer than the field
    assert!(!stored(&[0, 0, 0], 0, 0));
    assert!(!stored(&[1; 33], 257, 0));
    assert!(stored(&[u64::MAX, 0], 8, 1) && !stored(&[7, 0], 1, 1));
    assert!(stored(&[0x0403_0201, 0], 4, 2) && !stored(&[1 << 32, 0], 4, 2));
    assert!(stored(&[1, 2], 16, 3) && stored(&[1, 2], 16, 4) && !stored(&[1, 2], 8, 4));
    assert!(stored(&[0, 0], 0, 5) && !stored(&[1, 0], 0, 5));
    assert!(!stored(&[0, 0], 0, 6) && !stored(&[0, 0], 0, 255));
    assert_eq!(KeyRef::from_stored(&[0, 0], 0, 5), Some(KeyRef::BIZ));
}

#[test]
fn integers_are_placed_by_modulo() {
    let geometry = geometry(3, 100, HashKind::Bob);
    for key in [0, 1, 2, 3, 299, 300, u64::MAX] {
        let field = encoded(KeyType::Integer, &key.to_string()).unwrap();
        let place = field.key().locate(7, &geometry, SEED);
        assert_eq!(u64::from(place.file), key % 3);
        assert_eq!(u64::from(place.key_node), key / 3 % 100);
    }
}

#[test]
fn a_place_depends_on_key_biz_seed_and_kind() {
    let places = |kind| {
        let field = encoded(KeyType::String, "alice").unwrap();
        let key = field.key();
        let Seed([a, b]) = SEED;
        [
            key.estimate(1, kind, SEED),
            key.estimate(2, kind, SEED),
            key.estimate(1, kind, Seed([a ^ 1, b])),
            encoded(KeyType::String, "alicf").unwrap().key().estimate(1, kind, SEED),
            KeyRef::BIZ.estimate(1, kind, SEED),
            KeyRef::BIZ.estimate(2, kind, SEED),
        ]
    };
    let all: HashSet<u64> =
        [HashKind::Bob, HashKind::Siphash].into_iter().flat_map(places).collect();
    assert_eq!(all.len(), 12);
}

#[test]
fn the_file_format_fixes_places() {
    let place = |key: KeyRef<'_>, kind| {
        let place = key.locate(1001, &geometry(2, 8192, kind), SEED);
        (place.file, place.key_node, place.tag)
    };
    let text = encoded(KeyType::String, "18829340001@example").unwrap();
    let number = encoded(KeyType::Integer, "18829340001").unwrap();
    assert_eq!(place(text.key(), HashKind::Bob), (0, 6148, 248));
    assert_eq!(place(text.key(), HashKind::Siphash), (0, 1703, 193));
    assert_eq!(place(number.key(), HashKind::Bob), (1, 5808, 205));
    assert_eq!(place(KeyRef::BIZ, HashKind::Bob), (1, 1241, 118));
    let digest = shown(KeyType::Digest, "alice").unwrap();
    assert_eq!(digest, "digest:482e0a36279ebbcde3870db3d65fe25a");
}

/// Chi-squared of counts that should be equal, divided by its degrees of freedom. The value is
/// about 1.
fn unevenness(counts: &[u32]) -> f64 {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let sum: f64 = counts.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
    sum / (counts.len() - 1) as f64
}

#[test]
fn keys_that_look_alike_spread_evenly_over_files_key_nodes_and_tags() {
    let name = |n: u32| format!("user{n:07}");
    let address = |n: u32| Ipv4Addr::from(0x0a00_0000 + n).to_string();
    for kind in [HashKind::Bob, HashKind::Siphash] {
        let geometry = geometry(3, 1024, kind);
        for (key_type, make) in
            [(KeyType::String, &name as &dyn Fn(u32) -> String), (IP64, &address)]
        {
            let (mut files, mut key_nodes, mut tags) = ([0; 3], [0; 1024], [0; 255]);
            for n in 0..100_000 {
                let field = encoded(key_type, &make(n)).unwrap();
                let place = field.key().locate(1, &geometry, SEED);
                files[place.file as usize] += 1;
                key_nodes[place.key_node as usize] += 1;
                tags[usize::from(place.tag) - 1] += 1;
            }
            // Five standard deviations. One tag of the 255 is twice as likely as the others.
            assert!(unevenness(&files) < 6.0, "{files:?}");
            assert!(unevenness(&key_nodes) < 1.0 + 5.0 * (2.0_f64 / 1023.0).sqrt());
            assert!(unevenness(&tags[1..]) < 1.0 + 5.0 * (2.0_f64 / 253.0).sqrt());
        }
    }
}

#[test]
fn tags_within_a_key_node_tell_keys_apart() {
    let geometry = geometry(1, 64, HashKind::Bob);
    let mut tags = [0; 255];
    for n in 0..64 * 4000 {
        let field = encoded(KeyType::String, &format!("user{n:07}")).unwrap();
        let place = field.key().locate(1, &geometry, SEED);
        if place.key_node == 9 {
            tags[usize::from(place.tag) - 1] += 1;
        }
    }
    assert!(unevenness(&tags[1..]) < 1.0 + 5.0 * (2.0_f64 / 253.0).sqrt());
}

proptest! {
    #[test]
    fn a_key_comes_back_from_its_stored_form(text in "\\PC{1,24}", before in "[a-z]{1,24}") {
        let mut field = KeyField::default();
        field.encode(KeyType::String, before.as_bytes(), 96, SEED).unwrap();
        field.encode(KeyType::String, text.as_bytes(), 96, SEED).unwrap();
        let key = field.key();
        let mut stored = [0; 12];
        stored[..key.words().len()].copy_from_slice(key.words());
        let back = KeyRef::from_stored(&stored, key.bytes(), key.form() as u8).unwrap();
        prop_assert_eq!(back, key);
        prop_assert_eq!(back.to_string(), text);
        for kind in [HashKind::Bob, HashKind::Siphash] {
            let geometry = geometry(5, 977, kind);
            prop_assert_eq!(back.locate(3, &geometry, SEED), key.locate(3, &geometry, SEED));
        }
    }

    #[test]
    fn an_integer_comes_back(number: u64, zeros in 0_usize..30) {
        let text = format!("{}{number}", "0".repeat(zeros));
        prop_assert_eq!(shown(KeyType::Integer, &text).unwrap(), number.to_string());
    }

    #[test]
    fn an_address_comes_back(v4: u32, v6: u128) {
        let v4 = Ipv4Addr::from(v4);
        prop_assert_eq!(shown(IP64, &v4.to_string()).unwrap(), v4.to_string());
        let whole = IpAddr::from(Ipv6Addr::from(v6)).to_canonical();
        let kept = shown(KeyType::Ip { ipv6_prefix: 128 }, &whole.to_string()).unwrap();
        prop_assert_eq!(kept, whole.to_string());
    }

    // Shows: bad-input.
    #[test]
    fn no_text_makes_an_encoder_panic(text in "\\PC{0,80}|[0-9.:a-f\\[\\]%]{0,45}") {
        for key_type in [KeyType::String, KeyType::Digest, KeyType::Integer, IP64] {
            let _ = encoded(key_type, &text);
        }
    }
}

#[test]
fn the_words_of_a_short_text_are_those_of_its_key_field() {
    let text = b"0123456789abcdefghijklmnop";
    for length in 1..=text.len() {
        let mut field = KeyField::default();
        field.encode(KeyType::String, &text[..length], 32, DigestKey([1, 2])).unwrap();
        let words = words_of_short_text(&text[..length]);
        let expected = (length <= 24)
            .then(|| std::array::from_fn(|at| field.key().words().get(at).copied().unwrap_or(0)));
        assert_eq!(words, expected, "{length}");
    }
}
