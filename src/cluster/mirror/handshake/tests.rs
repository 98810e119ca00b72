//! Tests of the handshake.

use super::*;

const SECRET: [u8; 32] = [7; 32];

/// What a host begins a handshake with.
#[derive(Clone, Copy)]
struct Host {
    name: &'static str,
    owner: u32,
    secret: [u8; 32],
    nonce: u8,
}

const CONNECTOR: Host = Host { name: "prod", owner: 1, secret: SECRET, nonce: 10 };
const ACCEPTOR: Host = Host { name: "prod", owner: 2, secret: SECRET, nonce: 20 };

impl Host {
    fn connector(&self) -> (Connector, Frame) {
        Connector::begin(self.name, self.owner, &self.secret, [self.nonce; 16])
    }

    fn acceptor(&self) -> Acceptor {
        Acceptor::begin(self.name, self.owner, &self.secret, [self.nonce; 16])
    }
}

/// The frames of a handshake that succeeds: Hello, Welcome, Proof.
fn frames_of(connector: Host, acceptor: Host) -> [Frame; 3] {
    let (mut connector, hello) = connector.connector();
    let welcome = acceptor.acceptor().hello(&hello).unwrap();
    let (proof, _) = connector.welcome(&welcome).unwrap();
    [hello, welcome, proof]
}

/// The result of an acceptor that gets these frames.
fn accepts(acceptor: Host, hello: &Frame, proof: &Frame) -> Result<PeerIdentity, Rejected> {
    let mut acceptor = acceptor.acceptor();
    acceptor.hello(hello)?;
    acceptor.proof(proof)
}

/// Ends in a frame that tells the peer the same words.
#[track_caller]
fn says<T: fmt::Debug>(result: Result<T, Rejected>, words: &str) -> Rejected {
    let rejected = result.unwrap_err();
    let text = rejected.to_string();
    assert!(text.contains(words), "{text}");
    assert_eq!(rejected.told(), Frame::Refused(text));
    rejected
}

#[test]
fn peers_with_the_same_secret_know_each_other() {
    let (mut connector, hello) = CONNECTOR.connector();
    let mut acceptor = ACCEPTOR.acceptor();
    let welcome = acceptor.hello(&hello).unwrap();
    let (proof, peer) = connector.welcome(&welcome).unwrap();
    assert_eq!(peer, PeerIdentity { owner: 2 });
    assert_eq!(acceptor.proof(&proof), Ok(PeerIdentity { owner: 1 }));
    assert_eq!(connector.accepted(&Frame::Accepted), Ok(()));
}

#[test]
fn the_proofs_stay_the_same() {
    let [_, Frame::Welcome(_, accepts), Frame::Proof(connects)] = frames_of(CONNECTOR, ACCEPTOR)
    else {
        panic!("other frames")
    };
    assert_eq!(accepts.0[..8], [228, 17, 217, 73, 209, 165, 32, 80]);
    assert_eq!(connects.0[..8], [72, 102, 27, 106, 50, 222, 52, 4]);
}

#[test]
fn what_differs_is_told_to_both() {
    let of_format = |frame: &Frame| match frame.clone() {
        Frame::Hello(hello) => Frame::Hello(Hello { format: 2, ..hello }),
        Frame::Welcome(hello, proof) => Frame::Welcome(Hello { format: 2, ..hello }, proof),
        other => other,
    };
    let (mut connector, hello) = CONNECTOR.connector();
    says(ACCEPTOR.acceptor().hello(&of_format(&hello)), "a peer of format 2, expected format 1");
    let welcome = ACCEPTOR.acceptor().hello(&hello).unwrap();
    says(connector.welcome(&of_format(&welcome)), "a peer of format 2, expected format 1");

    let test = Host { name: "test", ..ACCEPTOR };
    let words = r#"found a peer of the peers "prod", expected one of "test""#;
    says(test.acceptor().hello(&hello), words);
    let own = Host { owner: 1, ..ACCEPTOR };
    says(own.acceptor().hello(&hello), "found a peer of the own owner number 1");

    let other = Host { secret: [8; 32], ..ACCEPTOR };
    let welcome = other.acceptor().hello(&hello).unwrap();
    let words = r#"found a proof by another secret, expected one by the secret of "prod""#;
    says(CONNECTOR.connector().0.welcome(&welcome), words);
    let [hello, _, proof] = frames_of(CONNECTOR, ACCEPTOR);
    says(accepts(other, &hello, &proof), words);
}

/// A connector checks the same as an acceptor, though an acceptor of ours would have refused it.
#[test]
fn a_connector_checks_the_acceptor_too() {
    let [_, welcome, _] = frames_of(CONNECTOR, ACCEPTOR);
    let connector = |host: Host| host.connector().0;
    says(
        connector(Host { name: "test", ..CONNECTOR }).welcome(&welcome),
        r#"expected one of "test""#,
    );
    says(connector(Host { owner: 2, ..CONNECTOR }).welcome(&welcome), "the own owner number 2");
}

#[test]
fn a_proof_holds_for_its_two_hellos_only() {
    let [hello, welcome, proof] = frames_of(CONNECTOR, ACCEPTOR);
    assert!(accepts(ACCEPTOR, &hello, &proof).is_ok());
    let Frame::Hello(from) = hello else { panic!("another frame") };
    let changes = [Hello { owner: 3, ..from.clone() }, Hello { nonce: [11; 16], ..from.clone() }];
    for changed in changes {
        says(accepts(ACCEPTOR, &Frame::Hello(changed), &proof), "another secret");
    }
    for acceptor in [Host { owner: 3, ..ACCEPTOR }, Host { nonce: 21, ..ACCEPTOR }] {
        says(accepts(acceptor, &Frame::Hello(from.clone()), &proof), "another secret");
    }
    let Frame::Welcome(by, by_proof) = welcome else { panic!("another frame") };
    let changes = [Hello { owner: 3, ..by.clone() }, Hello { nonce: [21; 16], ..by.clone() }];
    for changed in changes {
        let welcome = Frame::Welcome(changed, by_proof.clone());
        says(CONNECTOR.connector().0.welcome(&welcome), "another secret");
    }
    for byte in 0..32 {
        let mut wrong = by_proof.clone();
        wrong.0[byte] ^= 1;
        says(CONNECTOR.connector().0.welcome(&Frame::Welcome(by.clone(), wrong)), "another secret");
    }
}

/// A name and an owner cannot be shifted into each other.
#[test]
fn each_part_of_a_proof_counts_by_itself() {
    let hello = |name: &str| Hello { format: FORMAT, name: name.into(), owner: 1, nonce: [0; 16] };
    let (one, other) = (hello("ab"), hello("a"));
    let both = |connector, acceptor| Both { connector, acceptor }.text(Role::Connector);
    assert_ne!(both(&one, &other), both(&other, &one));
    assert_ne!(both(&one, &one), Both { connector: &one, acceptor: &one }.text(Role::Acceptor));
}

#[test]
fn an_old_connection_cannot_be_replayed() {
    let [hello, welcome, proof] = frames_of(CONNECTOR, ACCEPTOR);
    says(accepts(Host { nonce: 99, ..ACCEPTOR }, &hello, &proof), "another secret");
    let (mut later, _) = Host { nonce: 99, ..CONNECTOR }.connector();
    says(later.welcome(&welcome), "another secret");
}

#[test]
fn the_own_frames_are_refused() {
    let [hello, welcome, proof] = frames_of(CONNECTOR, ACCEPTOR);
    says(CONNECTOR.connector().0.welcome(&hello), "found the frame Hello, expected Welcome");
    // The host that connects also accepts.
    says(CONNECTOR.acceptor().hello(&hello), "the own owner number 1");
    // The proof of an acceptor, sent back to it as that of the connector.
    let Frame::Welcome(by, by_proof) = welcome else { panic!("another frame") };
    says(accepts(ACCEPTOR, &hello, &Frame::Proof(by_proof.clone())), "another secret");
    // A host that proves as the acceptor is no connector to the peer with exchanged roles.
    says(accepts(CONNECTOR, &Frame::Hello(by), &Frame::Proof(by_proof)), "another secret");
    let Frame::Proof(proof) = proof else { panic!("another frame") };
    let Frame::Hello(from) = hello else { panic!("another frame") };
    let back = Frame::Welcome(Hello { owner: 2, ..from }, proof);
    says(CONNECTOR.connector().0.welcome(&back), "another secret");
}

#[test]
fn a_frame_out_of_turn_ends_the_handshake() {
    let [hello, welcome, proof] = frames_of(CONNECTOR, ACCEPTOR);
    let nothing = "expected no further frame of the handshake";
    let mut acceptor = ACCEPTOR.acceptor();
    says(acceptor.proof(&proof), "found the frame Proof, expected Hello");
    says(acceptor.hello(&hello), nothing);
    let mut acceptor = ACCEPTOR.acceptor();
    acceptor.hello(&hello).unwrap();
    says(acceptor.hello(&hello), "found the frame Hello, expected Proof");
    says(acceptor.proof(&proof), nothing);
    let mut acceptor = ACCEPTOR.acceptor();
    acceptor.hello(&hello).unwrap();
    says(acceptor.proof(&Frame::Left), "found the frame Left, expected Proof");
    let mut acceptor = ACCEPTOR.acceptor();
    acceptor.hello(&hello).unwrap();
    acceptor.proof(&proof).unwrap();
    says(acceptor.proof(&proof), nothing);

    let mut connector = CONNECTOR.connector().0;
    says(connector.accepted(&Frame::Accepted), "found the frame Accepted, expected Welcome");
    says(connector.welcome(&welcome), nothing);
    let mut connector = CONNECTOR.connector().0;
    connector.welcome(&welcome).unwrap();
    says(connector.welcome(&welcome), "found the frame Welcome, expected Accepted");
    says(connector.accepted(&Frame::Accepted), nothing);
}

/// A wrong proof ends the handshake: a connector has one attempt.
#[test]
fn a_second_proof_is_refused() {
    let [hello, _, proof] = frames_of(CONNECTOR, ACCEPTOR);
    let mut acceptor = ACCEPTOR.acceptor();
    acceptor.hello(&hello).unwrap();
    says(acceptor.proof(&Frame::Proof(Proof([0; 32]))), "another secret");
    says(acceptor.proof(&proof), "expected no further frame");
}

#[test]
fn the_reason_of_the_peer_is_told() {
    let reason = Frame::refused("found a peer of format 1, expected format 2");
    let words = "refused by the peer: found a peer of format 1, expected format 2";
    let [hello, welcome, _] = frames_of(CONNECTOR, ACCEPTOR);
    says(CONNECTOR.connector().0.welcome(&reason), words);
    let mut connector = CONNECTOR.connector().0;
    connector.welcome(&welcome).unwrap();
    says(connector.accepted(&reason), words);
    let mut acceptor = ACCEPTOR.acceptor();
    acceptor.hello(&hello).unwrap();
    says(acceptor.proof(&reason), words);
}

#[test]
fn no_key_is_shown() {
    let shown = format!("{:?} {:?}", CONNECTOR.connector().0, ACCEPTOR.acceptor());
    assert!(shown.contains("prod") && !shown.contains("7, 7") && !shown.contains("key"), "{shown}");
}
