//! One connection to one node.
//!
//! Invariant: nothing here waits longer than it was told, and a connection on which anything went
//! wrong is not used again: its owner drops it.

use std::sync::Arc;
use std::time::Duration;

use frs::base::clock;
use frs::conf::{Cluster, ClusterNode, Password};
use frs::store::counter::{ClusterFunction, ClusterResult};
use redis::{
    Cmd, Connection, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, Value,
};

use super::fault::ClusterFault;
use super::tally::Tally;

/// The shortest wait for an answer, and the change of a wait that the kernel is told of.
const READ_LEAST: Duration = Duration::from_millis(1);

/// How all nodes are reached.
#[derive(Clone)]
pub(super) struct Access {
    /// The longest wait: for a connection, for a pipeline to be taken, for its answers.
    pub(super) timeout: Duration,
    pub(super) tls: bool,
    user: Option<String>,
    password: Option<String>,
    tally: Arc<Tally>,
}

/// Why a connection cannot be used, or not any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    /// It may work again later.
    Lost(String),
    /// Somebody has to mend it.
    Unfit(ClusterFault),
}

impl Broken {
    pub(super) fn why(&self) -> String {
        match self {
            Broken::Lost(why) => why.clone(),
            Broken::Unfit(fault) => fault.to_string(),
        }
    }
}

impl Access {
    pub(super) fn new(
        conf: &Cluster,
        password: Option<&Password>,
        tally: Arc<Tally>,
    ) -> Result<Access, ClusterFault> {
        let password = password.map(|password| {
            String::from_utf8(password.bytes().to_vec())
                .map_err(|_| ClusterFault::File("expected a password of UTF-8".to_owned()))
        });
        Ok(Access {
            timeout: Duration::from_millis(conf.timeout_ms),
            tls: conf.tls,
            user: conf.login.as_ref().and_then(|login| login.user.clone()),
            password: password.transpose()?,
            tally,
        })
    }

    /// Counts a message that is no job of a link.
    pub(super) fn count(&self, function: ClusterFunction, result: ClusterResult) {
        self.tally.count(function, result);
    }

    fn info(&self, node: &ClusterNode) -> Result<ConnectionInfo, RedisError> {
        let (host, port) = (node.host.clone(), node.port);
        let address = match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        if let Some(user) = &self.user {
            login = login.set_username(user);
        }
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        Ok(address.into_connection_info()?.set_redis_settings(login).set_tcp_settings(tcp))
    }

    /// Connects, and logs in.
    pub(super) fn open(&self, node: &ClusterNode) -> Result<Wire, Broken> {
        let open = || {
            let client = redis::Client::open(self.info(node)?)?;
            let connection = client.get_connection_with_timeout(self.timeout)?;
            connection.set_write_timeout(Some(self.timeout))?;
            Ok(connection)
        };
        let connection = open().map_err(|error: RedisError| match error.kind() {
            ErrorKind::AuthenticationFailed => {
                not_allowed(node, "the user or its password is not known there")
            }
            _ => Broken::Lost(error.to_string()),
        })?;
        let (node, tally) = (node.clone(), Arc::clone(&self.tally));
        Ok(Wire { connection, node, tally, told: None })
    }
}

/// The node does not let the courier do something.
pub(super) fn not_allowed(node: &ClusterNode, error: &str) -> Broken {
    let (node, error) = (node.to_string(), error.to_owned());
    Broken::Unfit(ClusterFault::NotAllowed { node, error })
}

/// The words of an error that a node has answered.
pub(super) fn words(error: &redis::ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

/// A connection.
pub(super) struct Wire {
    pub(super) connection: Connection,
    pub(super) node: ClusterNode,
    tally: Arc<Tally>,
    /// How long a read waits now.
    told: Option<Duration>,
}

impl Wire {
    /// Sends all commands at once, and reads an answer to each.
    pub(super) fn exchange(
        &mut self,
        commands: &[Cmd],
        longest: Duration,
    ) -> Result<Vec<Value>, Broken> {
        let begun = clock::instant();
        let mut packed = Vec::new();
        commands.iter().for_each(|command| command.write_packed_command(&mut packed));
        self.try_exchange(&packed, commands.len(), longest).map_err(|error| {
            let waited_ms = clock::since(begun).as_millis();
            match error.is_timeout() {
                true => Broken::Lost(format!("no answer within {waited_ms} ms")),
                false => Broken::Lost(error.to_string()),
            }
        })
    }

    /// The same, for commands that are no job of a link: they are counted as one message.
    pub(super) fn exchange_counted(
        &mut self,
        function: ClusterFunction,
        commands: &[Cmd],
        longest: Duration,
    ) -> Result<Vec<Value>, Broken> {
        let answers = self.exchange(commands, longest);
        let is_error = |value: &Value| matches!(value, Value::ServerError(_));
        self.count(
            function,
            match &answers {
                Ok(answers) if answers.iter().any(is_error) => ClusterResult::Error,
                Ok(_) => ClusterResult::Ok,
                Err(_) => ClusterResult::Timeout,
            },
        );
        answers
    }

    /// Counts a message that is no job of a link.
    pub(super) fn count(&self, function: ClusterFunction, result: ClusterResult) {
        self.tally.count(function, result);
    }

    fn try_exchange(
        &mut self,
        packed: &[u8],
        answers: usize,
        longest: Duration,
    ) -> Result<Vec<Value>, RedisError> {
        let begun = clock::instant();
        self.connection.send_packed_command(packed)?;
        let mut values = Vec::with_capacity(answers);
        while values.len() < answers {
            self.set_wait(longest.saturating_sub(clock::since(begun)).max(READ_LEAST))?;
            values.push(self.connection.recv_response()?);
        }
        Ok(values)
    }

    /// How long a read may wait. Most answers come at once, so the kernel is told of another time
    /// only.
    fn set_wait(&mut self, left: Duration) -> Result<(), RedisError> {
        let is_told =
            |told: Duration| told.saturating_sub(READ_LEAST) < left && left < told + READ_LEAST;
        if !self.told.is_some_and(is_told) {
            self.connection.set_read_timeout(Some(left))?;
            self.told = Some(left);
        }
        Ok(())
    }

    /// One command; the node's error is a reason to give the connection up.
    pub(super) fn ask(
        &mut self,
        function: ClusterFunction,
        command: &Cmd,
        longest: Duration,
    ) -> Result<Value, Broken> {
        let command = std::slice::from_ref(command);
        let answers = self.exchange_counted(function, command, longest)?;
        match answers.into_iter().next() {
            Some(Value::ServerError(error)) => Err(self.refusal(&words(&error))),
            Some(value) => Ok(value),
            None => Err(Broken::Lost("no answer".to_owned())),
        }
    }

    /// What an error of the node means for the connection.
    pub(super) fn refusal(&self, error: &str) -> Broken {
        match is_not_allowed(error) {
            true => not_allowed(&self.node, error),
            false => Broken::Lost(format!("it answers: {error}")),
        }
    }
}

/// Whether an error says that the user may not do this.
pub(super) fn is_not_allowed(error: &str) -> bool {
    let code = error.split(' ').next().unwrap_or_default();
    // A function is stopped at the first command that its caller may not use: in the words of 7.2
    // and of 7.0.
    matches!(code, "NOPERM" | "NOAUTH" | "WRONGPASS")
        || error.contains("ACL failure in script")
        || error.contains("The user executing the script can't run this command")
}
