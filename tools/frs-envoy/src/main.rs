//! frs-envoy serves Envoy's rate limit service for a frs server, and imports the configuration of
//! envoyproxy/ratelimit.
//!
//! Exit status: 0 as asked; 1 it cannot serve, or a file is faulty; 2 wrong usage.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use frs_envoy::import::{self, Imported};

/// Envoy's rate limit service on the limits of frs
#[derive(Parser)]
#[command(name = "frs-envoy", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve <rls> of srv.xml: frs starts this
    Serve {
        /// The server's data directory
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
    /// Print the configuration of envoyproxy/ratelimit as map.xml and <rls> of srv.xml
    Import {
        /// Its files, one for each domain
        #[arg(value_name = "YAML", required = true)]
        files: Vec<PathBuf>,
        /// Write map.xml and rls.xml into this directory instead, which is made; the files must not
        /// exist
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    if let Some(status) = frs_pages::write_if_asked(Arguments::command) {
        return status;
    }
    let result = match Arguments::parse().command {
        Command::Serve { data } => {
            frs_envoy::serve::serve(&data).map_err(|error| error.to_string())
        }
        Command::Import { files, into } => import(&files, into.as_deref()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            eprintln!("frs-envoy: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Imports files of envoyproxy/ratelimit. Prints settings without a counterpart on standard error.
fn import(files: &[PathBuf], into: Option<&Path>) -> Result<(), String> {
    let mut roots = Vec::new();
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
        let root = import::read(&text).map_err(|fault| format!("{name}:{fault}"))?;
        if roots.iter().any(|(_, known): &(_, import::DomainFile)| known.domain == root.domain) {
            return Err(format!(
                "{name}: found the domain {:?} again, expected it once",
                root.domain
            ));
        }
        roots.push((file, root));
    }
    for (file, root) in &roots {
        for (place, note) in import::import(std::slice::from_ref(root)).notes {
            eprintln!("{}:{place}: {note}", file.display());
        }
    }
    let roots: Vec<import::DomainFile> = roots.into_iter().map(|(_, root)| root).collect();
    let Imported { map, rls, .. } = import::import(&roots);
    let Some(dir) = into else {
        print!("<!-- map.xml -->\n{map}\n<!-- in srv.xml -->\n{rls}");
        return Ok(());
    };
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for (name, text) in [("map.xml", map), ("rls.xml", rls)] {
        let path = dir.join(name);
        let mut file = std::fs::File::create_new(&path).map_err(|error| failed(&path, error))?;
        file.write_all(text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
