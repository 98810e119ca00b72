//! How a connection between peers begins: Hello, Welcome, Proof, Accepted. Each peer proves that it
//! has the secret of `<peers>`, and neither sends it.
//!
//! A proof is HMAC-SHA256 (RFC 2104) over the prover's role, the format, and name, owner and nonce
//! of both peers: so it proves nothing in another connection, in the other role, or about another
//! host. Its key is derived from the secret for this purpose only. The handshake does not protect
//! the frames after it, nor against a machine between the peers: TLS does.
//!
//! Invariant: a connection has an identity only after a proof of exactly its own two Hellos. After
//! an error a handshake accepts no further frame. The Hello keeps its layout in all formats, so
//! that peers of different formats can tell each other why they part.

use std::fmt;

use ring::hmac;

use super::frame::{FORMAT, Frame, Hello, NAME_MAX, Proof};

/// The text from which the key of proofs is computed, with the secret as the key.
const KEY_OF_PROOFS: &[u8] = b"frs: the key of proofs between peers, 1";

/// Why a connection is not accepted. The message suits the logs of both peers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The peer has another format.
    #[error("found a peer of format {found}, expected format {FORMAT}: run the same release")]
    Format {
        /// The peer's format.
        found: u32,
    },
    /// The peer belongs to others.
    #[error("found a peer of the peers {found:?}, expected one of {expected:?}")]
    Name {
        /// The peer's name.
        found: String,
        /// The own name.
        expected: String,
    },
    /// The peer has the own owner number.
    #[error(
        "found a peer of the own owner number {0}, expected another machine: it is this machine \
         itself, or its data directory is a copy of this machine's"
    )]
    Itself(u32),
    /// The proof is wrong.
    #[error(
        "found a proof by another secret, expected one by the secret of {0:?}: all machines need \
         the same secret file"
    )]
    Secret(String),
    /// A frame that does not follow here.
    #[error("found the frame {found}, expected {expected}")]
    OutOfTurn {
        /// The kind of the frame.
        found: &'static str,
        /// The expected kinds.
        expected: &'static str,
    },
    /// The peer refused the connection.
    #[error("refused by the peer: {0}")]
    ByPeer(String),
}

impl Rejected {
    /// The frame that tells the peer why. A peer that has refused the connection itself needs none.
    pub fn told(&self) -> Frame {
        Frame::refused(&self.to_string())
    }
}

/// A peer that has proved to have the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its owner number.
    pub owner: u32,
}

/// What a proof proves.
#[derive(Clone, Copy)]
enum Role {
    Connector,
    Acceptor,
}

impl Role {
    const fn label(self) -> &'static [u8; 8] {
        match self {
            Role::Connector => b"connects",
            Role::Acceptor => b"accepts_",
        }
    }
}

/// The own side of a handshake.
struct Own {
    hello: Hello,
    key: hmac::Key,
}

/// The Hellos of a connection.
struct Both<'h> {
    connector: &'h Hello,
    acceptor: &'h Hello,
}

impl Both<'_> {
    /// The text of a proof. Every part has a fixed length or begins with its length.
    fn text(&self, role: Role) -> Vec<u8> {
        let mut text = role.label().to_vec();
        text.extend_from_slice(&FORMAT.to_le_bytes());
        for Hello { format: _, name, owner, nonce } in [self.connector, self.acceptor] {
            text.extend_from_slice(&(name.len() as u64).to_le_bytes());
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(&owner.to_le_bytes());
            text.extend_from_slice(nonce);
        }
        text
    }
}

impl Own {
    fn new(name: &str, owner: u32, secret: &[u8; 32], nonce: [u8; 16]) -> Own {
        debug_assert!(name.len() <= NAME_MAX, "{name:?}");
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derived = hmac::sign(&secret, KEY_OF_PROOFS);
        Own {
            hello: Hello { format: FORMAT, name: name.to_owned(), owner, nonce },
            key: hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()),
        }
    }

    /// Checks what a peer says of itself.
    fn check(&self, peer: &Hello) -> Result<(), Rejected> {
        let Hello { name, owner, .. } = &self.hello;
        if peer.format != FORMAT {
            return Err(Rejected::Format { found: peer.format });
        }
        if peer.name != *name {
            return Err(Rejected::Name { found: peer.name.clone(), expected: name.clone() });
        }
        if peer.owner == *owner {
            return Err(Rejected::Itself(*owner));
        }
        Ok(())
    }

    fn proof(&self, role: Role, both: &Both<'_>) -> Proof {
        let mut proof = [0; 32];
        proof.copy_from_slice(hmac::sign(&self.key, &both.text(role)).as_ref());
        Proof(proof)
    }

    /// Checks a proof in constant time.
    fn verify(&self, role: Role, both: &Both<'_>, proof: &Proof) -> Result<(), Rejected> {
        let verified = hmac::verify(&self.key, &both.text(role), &proof.0);
        verified.map_err(|_| Rejected::Secret(self.hello.name.clone()))
    }
}

/// Shows no key.
impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hello.fmt(f)
    }
}

fn out_of_turn(found: &Frame, expected: &'static str) -> Rejected {
    match found {
        Frame::Refused(reason) => Rejected::ByPeer(reason.clone()),
        found => Rejected::OutOfTurn { found: found.kind_name(), expected },
    }
}

/// What a connector waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectorTurn {
    Welcome,
    Accepted,
    Over,
}

/// The side that has opened the connection.
#[derive(Debug)]
pub struct Connector {
    own: Own,
    turn: ConnectorTurn,
}

impl Connector {
    /// Begins a handshake: returns the frame to be sent first. The nonce is random, and new for
    /// each connection.
    pub fn begin(name: &str, owner: u32, secret: &[u8; 32], nonce: [u8; 16]) -> (Connector, Frame) {
        let own = Own::new(name, owner, secret, nonce);
        let hello = Frame::Hello(own.hello.clone());
        (Connector { own, turn: ConnectorTurn::Welcome }, hello)
    }

    /// Takes the answer of the acceptor: returns the own proof, and the peer. The peer does not
    /// know this host before it has answered [`Frame::Accepted`].
    ///
    /// # Errors
    /// The acceptor is no peer of this host, or has refused it.
    pub fn welcome(&mut self, frame: &Frame) -> Result<(Frame, PeerIdentity), Rejected> {
        let turn = std::mem::replace(&mut self.turn, ConnectorTurn::Over);
        let (ConnectorTurn::Welcome, Frame::Welcome(peer, proof)) = (turn, frame) else {
            return Err(out_of_turn(frame, turn.expected()));
        };
        self.own.check(peer)?;
        let both = Both { connector: &self.own.hello, acceptor: peer };
        self.own.verify(Role::Acceptor, &both, proof)?;
        self.turn = ConnectorTurn::Accepted;
        let own_proof = self.own.proof(Role::Connector, &both);
        Ok((Frame::Proof(own_proof), PeerIdentity { owner: peer.owner }))
    }

    /// Takes the frame that ends the handshake.
    ///
    /// # Errors
    /// The acceptor has refused this host, or sent another frame.
    pub fn accepted(&mut self, frame: &Frame) -> Result<(), Rejected> {
        let turn = std::mem::replace(&mut self.turn, ConnectorTurn::Over);
        match (turn, frame) {
            (ConnectorTurn::Accepted, Frame::Accepted) => Ok(()),
            _ => Err(out_of_turn(frame, turn.expected())),
        }
    }
}

impl ConnectorTurn {
    const fn expected(self) -> &'static str {
        match self {
            ConnectorTurn::Welcome => "Welcome",
            ConnectorTurn::Accepted => "Accepted",
            ConnectorTurn::Over => "no further frame of the handshake",
        }
    }
}

/// What an acceptor waits for.
#[derive(Debug)]
enum AcceptorTurn {
    Hello,
    /// The proof of the host with this Hello.
    Proof(Hello),
    Over,
}

/// The side that has accepted the connection.
#[derive(Debug)]
pub struct Acceptor {
    own: Own,
    turn: AcceptorTurn,
}

impl Acceptor {
    /// Begins a handshake. The nonce is random, and new for each connection.
    pub fn begin(name: &str, owner: u32, secret: &[u8; 32], nonce: [u8; 16]) -> Acceptor {
        Acceptor { own: Own::new(name, owner, secret, nonce), turn: AcceptorTurn::Hello }
    }

    /// Takes the first frame of the connector: returns the answer.
    ///
    /// # Errors
    /// The connector is no peer of this host.
    pub fn hello(&mut self, frame: &Frame) -> Result<Frame, Rejected> {
        let turn = std::mem::replace(&mut self.turn, AcceptorTurn::Over);
        let (AcceptorTurn::Hello, Frame::Hello(peer)) = (&turn, frame) else {
            return Err(out_of_turn(frame, turn.expected()));
        };
        self.own.check(peer)?;
        let both = Both { connector: peer, acceptor: &self.own.hello };
        let proof = self.own.proof(Role::Acceptor, &both);
        self.turn = AcceptorTurn::Proof(peer.clone());
        Ok(Frame::Welcome(self.own.hello.clone(), proof))
    }

    /// Takes the proof of the connector: returns the peer. [`Frame::Accepted`] is to be sent then.
    ///
    /// # Errors
    /// The connector has another secret, or has refused this host.
    pub fn proof(&mut self, frame: &Frame) -> Result<PeerIdentity, Rejected> {
        let turn = std::mem::replace(&mut self.turn, AcceptorTurn::Over);
        let (AcceptorTurn::Proof(peer), Frame::Proof(proof)) = (&turn, frame) else {
            return Err(out_of_turn(frame, turn.expected()));
        };
        let both = Both { connector: peer, acceptor: &self.own.hello };
        self.own.verify(Role::Connector, &both, proof)?;
        Ok(PeerIdentity { owner: peer.owner })
    }
}

impl AcceptorTurn {
    const fn expected(&self) -> &'static str {
        match self {
            AcceptorTurn::Hello => "Hello",
            AcceptorTurn::Proof(_) => "Proof",
            AcceptorTurn::Over => "no further frame of the handshake",
        }
    }
}

#[cfg(test)]
mod tests;
