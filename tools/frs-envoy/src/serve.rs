//! frs-envoy as a process of a server: inherited descriptors, messages of the master, and its end.
//!
//! Invariant: the process ends when the master asks it to, or is gone. An error ends the process,
//! and the master replaces it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{Notify, mpsc};

use crate::domains::Domains;
use crate::follow::follow;
use crate::judge::Judge;
use crate::lease_queue;
use crate::listener::Listener;
use crate::secure::Certificates;
use crate::service::Service;
use frs::AttachError;
use frs_base::sys::process::{Channel, PollFd, PollFlags, Signal, Signals, poll};
use frs_server::process::envoy::{InheritedDescriptors, start_log};
use frs_server::process::log;
use frs_server::process::message::{Received, ToChild, receive, send_ready};
use std::os::fd::AsFd;

/// Threads that wait for the cluster, and one that reads a new configuration.
const BLOCKING_THREADS: usize = lease_queue::THREADS + 1;
/// Time limit after SIGTERM for calls that were already read.
const FINISH: Duration = Duration::from_secs(4);
/// Time limit for clients to go while other processes serve in place of this one.
const DRAIN: Duration = Duration::from_secs(60);

/// The process cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The process was started by hand.
    #[error(
        "frs-envoy serve is what frs starts when srv.xml has <rls>: start frs. By hand, use \
         frs-envoy import"
    )]
    ByHand,
    /// The process cannot attach to the store.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A request of the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MasterRequest {
    /// Take the configuration in force.
    Take,
    /// End, within this time.
    End(Duration),
}

/// Serves until asked to end. Must be called before anything else in the process.
///
/// # Errors
/// The process cannot serve. The master then replaces it.
pub fn serve(data_dir: &Path) -> Result<(), ServeError> {
    let InheritedDescriptors { channel, listener, tokens, tls } =
        InheritedDescriptors::take()?.ok_or(ServeError::ByHand)?;
    let ignored = [Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
    let signals = Signals::take(&[Signal::SIGTERM, Signal::SIGQUIT], &ignored)?;
    let judge = Judge::attach(data_dir)?;
    let (generation, conf) = judge.in_force()?;
    start_log(&conf.srv.log);
    let _name = log::name_process("envoy");
    let mut certificates = Certificates::new(tls)?;
    let spoken = certificates.take(&conf.srv);
    let domains = Domains::of(generation, &conf, tokens.read());
    let service = Arc::new(Service::new(judge, domains, spoken));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()?;
    let (requests, inbox) = mpsc::unbounded_channel();
    let served = runtime.block_on(async {
        let listener = Listener::new(listener)?;
        let judging = Arc::clone(&service);
        let judging = tokio::spawn(async move { judging.judge().run().await });
        let reload_notice = Arc::new(Notify::new());
        let following = Arc::clone(&service);
        let (data_dir, notice) = (data_dir.into(), Arc::clone(&reload_notice));
        tokio::spawn(follow(following, certificates, Arc::new(tokens), data_dir, notice));
        let serving = Arc::clone(&service);
        let serving = tokio::spawn(async move { serving.serve(listener).await });
        send_ready(&channel)?;
        std::thread::Builder::new()
            .name("master".into())
            .spawn(move || listen_to_master(&channel, &signals, &requests))?;
        // If one of them panics, a new process serves better than the rest of this one.
        tokio::select! {
            () = obey(&service, &reload_notice, inbox, serving) => {}
            _ = judging => tracing::error!("nothing judges any more: this process ends"),
        }
        Ok::<_, io::Error>(())
    });
    // Threads may still wait for leases.
    runtime.shutdown_background();
    Ok(served?)
}

/// Passes on the messages of the master, until one says that this is the end.
fn listen_to_master(
    channel: &Channel,
    signals: &Signals,
    requests: &mpsc::UnboundedSender<MasterRequest>,
) {
    loop {
        let mut fds = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(channel.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut fds, None).is_err() {
            let _ = requests.send(MasterRequest::End(FINISH));
            return;
        }
        while let Ok(Some(signal)) = signals.next() {
            let bound = if signal == Signal::SIGTERM { FINISH } else { DRAIN };
            let _ = requests.send(MasterRequest::End(bound));
        }
        loop {
            match receive(channel) {
                Ok(Received::Message(ToChild::Generation, _)) => {
                    let _ = requests.send(MasterRequest::Take);
                }
                Ok(Received::Message(ToChild::Leave, _)) => {
                    let _ = requests.send(MasterRequest::End(DRAIN));
                }
                Ok(Received::Message(ToChild::ReopenLog, _)) => log::reopen(),
                Ok(Received::Message(..)) => {}
                Ok(Received::Nothing) => break,
                Ok(Received::MasterGone) | Err(_) => {
                    tracing::warn!("the master has ended: frs-envoy ends");
                    let _ = requests.send(MasterRequest::End(FINISH));
                    return;
                }
            }
        }
    }
}

async fn obey(
    service: &Arc<Service>,
    reload_notice: &Notify,
    mut requests: mpsc::UnboundedReceiver<MasterRequest>,
    mut serving: tokio::task::JoinHandle<()>,
) {
    let mut bound = Duration::MAX;
    let end = tokio::time::sleep(bound);
    tokio::pin!(end);
    let mut is_open = true;
    loop {
        tokio::select! {
            request = requests.recv(), if is_open => {
                // Without a request, the thread that listens to the master has ended, after the
                // end or by a panic.
                is_open = request.is_some();
                match request.unwrap_or(MasterRequest::End(FINISH)) {
                    MasterRequest::Take => reload_notice.notify_one(),
                    MasterRequest::End(within) => {
                        service.end();
                        if within < bound {
                            bound = within;
                            end.set(tokio::time::sleep(bound));
                        }
                    }
                }
            }
            () = &mut end => return,
            _ = &mut serving => return,
        }
    }
}
