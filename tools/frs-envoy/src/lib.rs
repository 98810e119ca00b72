//! Envoy's rate limit service (gRPC, v3) on the limits of a frs server.
//!
//! frs starts the program `frs-envoy` if srv.xml has `<rls>`, and hands it a listener. The program
//! attaches to the store as other programs do, and answers Envoy from there.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`serve`] | the process: inherited descriptors, messages of the master |
//! | [`connections`], [`connection_places`] | connections and their bounds |
//! | [`timed_stream`], [`secure`] | their sockets, and TLS over them |
//! | [`service`], [`health`] | calls |
//! | [`grpc`], [`status`], [`messages`] | the protocol |
//! | [`domains`], [`matching`] | the descriptor of srv.xml that a call's descriptor is charged to |
//! | [`callers`] | who asks, and what it may do |
//! | [`call`] | from a request to items, from verdicts to a response |
//! | [`keys`] | from values to keys and ids that fit their businesses |
//! | [`overrides`] | from Envoy's limits to those of a call |
//! | [`judge`], [`ready_call`] | the store, and calls that ask it |
//! | [`lease_queue`] | calls that wait for the cluster |
//! | [`follow`] | the domains after a reload |
//! | [`import`] | envoyproxy/ratelimit's configuration as one of frs |

pub mod call;
pub mod callers;
pub mod connection_places;
pub mod connections;
pub mod domains;
pub mod follow;
pub mod grpc;
pub mod health;
pub mod import;
pub mod judge;
pub mod keys;
pub mod lease_queue;
pub mod listener;
pub mod matching;
pub mod messages;
pub mod overrides;
pub mod ready_call;
pub mod secure;
pub mod serve;
pub mod service;
pub mod status;
pub mod timed_stream;
