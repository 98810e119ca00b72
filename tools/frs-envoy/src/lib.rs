//! Envoy's rate limit service (gRPC, v3) on the limits of a frs server.
//!
//! frs starts the program `frs-envoy` where srv.xml has `<rls>`, and hands it a listener. It
//! attaches to the store as programs do, and answers Envoy from there.
//!
//! | file | what it does |
//! | --- | --- |
//! | [`serve`] | the process: what it inherits, what the master tells it |
//! | [`connections`], [`places`], [`wire`] | connections, their bounds, their sockets |
//! | [`service`], [`health`] | calls |
//! | [`grpc`], [`status`], [`messages`] | the protocol |
//! | [`domains`], [`matching`] | which descriptor of srv.xml a call's descriptor is charged to |
//! | [`call`] | a request to items, verdicts to a response |
//! | [`keys`] | values to keys that their businesses take |
//! | [`judge`], [`ready`] | the store, and calls that ask it |
//! | [`waiting`] | calls that wait for the cluster |
//! | [`follow`] | the domains after a reload |
//! | [`import`] | envoyproxy/ratelimit's configuration, as frs's |

pub mod call;
pub mod connections;
pub mod domains;
pub mod follow;
pub mod grpc;
pub mod health;
pub mod import;
pub mod judge;
pub mod keys;
pub mod listener;
pub mod matching;
pub mod messages;
pub mod places;
pub mod ready;
pub mod serve;
pub mod service;
pub mod status;
pub mod waiting;
pub mod wire;
