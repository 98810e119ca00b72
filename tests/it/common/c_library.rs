//! The installed C library, and programs compiled against it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::needs::output;
use super::{text, tools};

/// A file of `bindings`.
pub fn bindings(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings")).join(name)
}

/// The library, installed below a directory as its script does.
pub struct Installed {
    prefix: tempfile::TempDir,
}

impl Installed {
    pub fn new() -> Installed {
        let library = tools::built("libfrs.so", &["--package", "frs-c"]);
        let built = library.parent().expect("a directory");
        let prefix = tempfile::tempdir().expect("a directory");
        let mut install = Command::new(bindings("c/install"));
        let output = install.arg(prefix.path()).arg(built).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        Installed { prefix }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.prefix.path().join(name)
    }

    /// A program that finds the library.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"));
        command.env("LD_LIBRARY_PATH", self.path("lib"));
        command
    }

    /// Compiles a C program. `None` if there is no compiler.
    #[track_caller]
    pub fn compile(&self, source: &Path, name: &str) -> Option<PathBuf> {
        self.compile_with(source, name, &["-lfrs", "-lpthread"])
    }

    /// Compiles a C program with these libraries. `None` if there is no compiler.
    #[track_caller]
    pub fn compile_with(&self, source: &Path, name: &str, libraries: &[&str]) -> Option<PathBuf> {
        let program = self.path(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-D_GNU_SOURCE"]);
        compiler.arg("-I").arg(self.path("include")).arg(source).arg("-o").arg(&program);
        compiler.arg("-L").arg(self.path("lib")).args(libraries);
        let output = output(&mut compiler)?;
        assert!(output.status.success(), "{}", text(&output.stderr));
        Some(program)
    }
}
