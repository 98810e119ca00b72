//! Which files hold a secret, and the faults of the others.

use std::os::unix::fs::PermissionsExt;

use super::*;

const DIGITS: &str = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";

/// A directory, and a cluster whose files are in it.
struct World {
    dir: tempfile::TempDir,
    cluster: Cluster,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let [secret_file, password_file] = ["secret", "password"].map(|name| dir.path().join(name));
        let cluster = Cluster {
            name: "prod".to_owned(),
            secret_file,
            timeout_ms: 50,
            learn_ms: 500,
            wait_replicas: 0,
            batch: 64,
            max_parked: 4096,
            nodes: Vec::new(),
            tls: false,
            login: Some(Login { user: Some("frs".to_owned()), password_file }),
        };
        World { dir, cluster }
    }

    fn write(&self, name: &str, bytes: &[u8], mode: u32) {
        let path = self.dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// The faults, with DIR for the directory.
    fn faults(&self) -> Vec<String> {
        let dir = self.dir.path().display().to_string();
        let faults = self.cluster.file_faults(&SecretReaders::of(None));
        faults.iter().map(|fault| fault.to_string().replace(&dir, "DIR")).collect()
    }
}

#[test]
fn digits_and_bytes_are_one_secret() {
    let secret = |file: &[u8]| ClusterSecret::of(file);
    let bytes: Vec<u8> = (0..16u8).map(|n| n * 17).chain((0..16u8).rev().map(|n| n * 17)).collect();
    let found = secret(&bytes).unwrap();
    assert_eq!(found.bytes().as_slice(), bytes);
    for text in [DIGITS.to_owned(), format!("{DIGITS}\n"), format!(" {DIGITS}\r\n")] {
        assert!(secret(text.as_bytes()) == Some(found.clone()), "{text}");
    }
    // Bytes are taken as they are, whatever they look like.
    assert_eq!(secret(&[b'\n'; 32]).unwrap().bytes(), &[b'\n'; 32]);
    for bad in [
        "",
        "0011",
        &DIGITS[1..],
        &format!("{DIGITS}0"),
        &format!("+{}", &DIGITS[1..]),
        &DIGITS.replace("00", "0x"),
        &format!("{} {}", &DIGITS[..32], &DIGITS[33..]),
    ] {
        assert!(secret(bad.as_bytes()).is_none(), "{bad}");
    }
    assert!(secret(&[1; 31]).is_none() && secret(&[1; 33]).is_none());
}

#[test]
fn passwords_are_one_line() {
    let password = |file: &[u8]| Password::of(file).map(|password| password.bytes().to_vec());
    for file in ["p ss", "p ss\n", "p ss\r\n"] {
        assert_eq!(password(file.as_bytes()), Some(b"p ss".to_vec()), "{file:?}");
    }
    assert_eq!(password(&[0xff; 1024]), Some(vec![0xff; 1024]));
    for bad in ["", "\n", "a\nb", "a\n\n", "a\0"] {
        assert_eq!(password(bad.as_bytes()), None, "{bad:?}");
    }
    assert_eq!(password(&[b'x'; 1025]), None);
}

#[test]
fn good_files_are_read() {
    let world = World::new();
    world.write("secret", DIGITS.as_bytes(), 0o600);
    world.write("password", b"hunter2\n", 0o400);
    assert_eq!(world.faults(), [""; 0]);
    let readers = SecretReaders::of(None);
    let secret = world.cluster.secret(&readers).unwrap();
    assert_eq!(secret.bytes()[1], 0x11);
    let password = world.cluster.password(&readers).unwrap().unwrap();
    assert_eq!(password.bytes(), b"hunter2");
    assert_eq!(format!("{secret:?} {password:?}"), "ClusterSecret(…) Password(…)");
    let nobody = Cluster { login: None, ..world.cluster.clone() };
    assert!(nobody.password(&readers).unwrap().is_none());
}

#[test]
fn faults_say_what_to_do() {
    const SECRET: &str = "expected 32 bytes or 64 hexadecimal digits, the same on all machines: \
                          make them once with (umask 077; openssl rand -hex 32 > DIR/secret)";
    const PASSWORD: &str =
        "expected one line of 1 to 1024 bytes, the password of the cluster's user frs";
    let mut world = World::new();
    let both = |secret: &str, password: &str| {
        [
            format!("DIR/secret: found {secret}, {SECRET}"),
            format!("DIR/password: found {password}, {PASSWORD}"),
        ]
    };
    assert_eq!(world.faults(), both("no such file", "no such file"));
    world.write("secret", b"0123456789ab", 0o600);
    world.write("password", b"", 0o600);
    assert_eq!(world.faults(), both("12 bytes", "0 bytes"));
    world.write("secret", DIGITS.replace("00", "xy").as_bytes(), 0o600);
    world.write("password", &[b'x'; 3000], 0o600);
    assert_eq!(
        world.faults(),
        both("characters that are no hexadecimal digits", "2048 bytes or more")
    );
    world.write("secret", DIGITS.as_bytes(), 0o644);
    world.write("password", b"hunter2", 0o604);
    assert_eq!(
        world.faults(),
        [
            "DIR/secret: found mode 0644, expected 0400, 0440, 0600 or 0640, so that nobody but the \
             server can read it",
            "DIR/password: found mode 0604, expected 0400, 0440, 0600 or 0640, so that nobody but \
             the server can read it",
        ]
    );
    world.write("secret", DIGITS.as_bytes(), 0o600);
    world.cluster.login = Some(Login { user: None, password_file: world.dir.path().to_owned() });
    assert_eq!(
        world.faults(),
        [format!(
            "DIR: found something that is no file, {}",
            PASSWORD.replace("user frs", "user default")
        )]
    );
}

/// SipHash-2-4 with 128 bits of a constant text, keyed by the bytes 16 to 31 of the secret. All
/// machines must compute the same seed, whatever version of frs they run.
// Shows: cluster-secret.
#[test]
fn the_seed_of_keys_is_computed_of_the_secret_and_is_no_part_of_it() {
    let secret = ClusterSecret::new(std::array::from_fn(|at| at as u8));
    let ClusterKeys { check, key_seed } = secret.keys();
    assert_eq!(key_seed, [0xa7c7_edce_b57c_264a, 0x2a5a_8856_4ab7_3898]);
    let (words, _) = secret.bytes().as_chunks::<8>();
    // Files keep them in this order.
    let stored = [check, key_seed[0], key_seed[1]];
    assert_eq!(secret.keys().words(), stored);
    assert!(ClusterKeys::of_words(stored) == secret.keys());
    assert!(stored.iter().all(|word| !words.contains(&word.to_le_bytes())));
    // Each byte of the half from which the seed is derived changes both of its words.
    for at in 16..32 {
        let mut other = *secret.bytes();
        other[at] ^= 1;
        let found = ClusterSecret::new(other).keys().key_seed;
        assert!(found[0] != key_seed[0] && found[1] != key_seed[1], "byte {at}");
    }
}
