//! Follows the configuration in force: the domains are those of the latest generation.
//!
//! Invariant: the domains and their generation are put in force together, behind the certificates.
//! Unless a call comes in between, this process acknowledges a generation only then. A generation
//! that cannot be read is tried again until it can be read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::connections::CallHandler as _;
use crate::domains::Domains;
use crate::secure::Certificates;
use crate::service::Service;
use frs_conf::active::{self, ActiveError};
use frs_server::process::log;
use frs_server::process::token_board::TokenBoard;

/// The pause after which another generation is looked for without a notice.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Follows for ever. `tokens` holds those of the configuration in force. `reload_notice` is
/// notified of another generation.
pub async fn follow(
    service: Arc<Service>,
    mut certificates: Certificates,
    tokens: Arc<TokenBoard>,
    data_dir: Arc<Path>,
    reload_notice: Arc<Notify>,
) {
    // The last generation that could not be read.
    let mut failed = 0;
    loop {
        let is_notified = tokio::time::timeout(LOOK_EVERY, reload_notice.notified()).await.is_ok();
        // Without a store to attach to, nothing is in force.
        let Ok(generation) = service.judge().published() else { continue };
        let is_new = generation != 0 && generation != service.domains().generation;
        if is_new {
            let (dir, tokens) = (Arc::clone(&data_dir), Arc::clone(&tokens));
            // Reading a large configuration takes a while.
            let read = spawn_blocking(move || {
                let conf = active::read(&dir, generation)?;
                Ok::<_, ActiveError>((Domains::of(generation, &conf, tokens.read()), conf))
            });
            match read.await {
                Ok(Ok((domains, conf))) => {
                    log::set_level(domains.log_level);
                    service.secure().set(certificates.take(&conf.srv));
                    service.set_domains(domains);
                }
                Ok(Err(error)) if failed != generation => {
                    failed = generation;
                    tracing::error!(%error, "the domains of <rls> stay as they were");
                }
                _ => {}
            }
        }
        if is_new || is_notified {
            // Without a store, the next call reports it.
            let _ = service.judge().tick();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::runtime::Builder;

    use super::*;
    use crate::judge::Judge;
    use frs_engine::access::TokenDigests;
    use frs_engine::testing::World;
    use frs_server::tls::board::{TlsBoards, TlsMaterial};
    use frs_server::tls::configs::Spoken;
    use frs_server::tls::tickets::TicketBoard;

    const MAP: &str =
        r#"<map><group name="g" files="1" key-nodes="64" chain="8" node-size="128"/></map>"#;

    async fn wait_for(service: &Service, generation: u64) -> Duration {
        let begun = Instant::now();
        while service.domains().generation != generation {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not follow");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        begun.elapsed()
    }

    // Shows: frs-envoy-replaced.
    #[test]
    fn domains_follow_the_generation_in_force_told_or_not_and_after_a_failure() {
        let world = World::new(MAP);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let judge = Judge::attach(&world.dir).expect("attached");
            let (generation, conf) = judge.in_force().expect("in force");
            let domains = Domains::of(generation, &conf, None);
            let service = Arc::new(Service::new(judge, domains, Spoken::Plain));
            let tokens = Arc::new(TokenBoard::new(&TokenDigests::default()).expect("a board"));
            let tickets = TicketBoard::new(0).expect("made");
            let boards = TlsBoards::new(&conf.srv, &TlsMaterial::default(), tickets).expect("made");
            let certificates = Certificates::new(boards.into_envoy_share()).expect("shared");
            let reload_notice = Arc::new(Notify::new());
            let dir = world.dir.as_path().into();
            let (following, notice) = (Arc::clone(&service), Arc::clone(&reload_notice));
            tokio::spawn(follow(following, certificates, tokens, dir, notice));
            world.publish(MAP, 2);
            wait_for(&service, 2).await;
            world.publish(MAP, 3);
            let file = active::path(&world.dir, 3);
            let aside = world.dir.join("aside");
            std::fs::rename(&file, &aside).expect("renamed");
            reload_notice.notify_one();
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(service.domains().generation, 2);
            std::fs::rename(&aside, &file).expect("renamed");
            wait_for(&service, 3).await;
            world.publish(MAP, 4);
            reload_notice.notify_one();
            let took = wait_for(&service, 4).await;
            assert!(took < LOOK_EVERY / 2, "{took:?}");
            let acknowledged = || world.runtime().slots().iter().all(|slot| slot.generation == 4);
            let begun = Instant::now();
            while !acknowledged() {
                assert!(begun.elapsed() < Duration::from_secs(20), "not acknowledged");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }
}
