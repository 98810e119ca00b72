//! Follows the configuration in force: the domains are those of its last generation.
//!
//! Invariant: domains and their generation are put in force together, and without a call meanwhile
//! this process acknowledges a generation only then. What cannot be read is tried again until it
//! can.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::domains::Domains;
use crate::service::Service;
use frs::conf::active;
use frs_server::process::log;

/// Looks for another generation so often without being told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Follows for ever. `told` is notified when there is another generation.
pub async fn follow(service: Arc<Service>, data_dir: Arc<Path>, told: Arc<Notify>) {
    // The last generation that could not be read.
    let mut failed = 0;
    loop {
        let is_told = tokio::time::timeout(LOOK_EVERY, told.notified()).await.is_ok();
        // While there is no store to attach to, nothing is in force.
        let Ok(generation) = service.judge().published() else { continue };
        let is_new = generation != 0 && generation != service.domains().generation;
        if is_new {
            let dir = Arc::clone(&data_dir);
            // A large configuration takes a while.
            let read = spawn_blocking(move || {
                active::read(&dir, generation).map(|conf| Domains::of(generation, &conf))
            });
            match read.await {
                Ok(Ok(domains)) => {
                    log::set_level(domains.log_level);
                    service.set_domains(domains);
                }
                Ok(Err(error)) if failed != generation => {
                    failed = generation;
                    tracing::error!(%error, "the domains of <rls> stay as they were");
                }
                _ => {}
            }
        }
        if is_new || is_told {
            // If there is no store, the next call says so.
            let _ = service.judge().tick();
            let waiting = Arc::clone(service.judge().waiting());
            let _ = spawn_blocking(move || waiting.tick()).await;
        }
    }
}
