//! Makes the manual pages and shell completions of a command from its arguments. Packages hold
//! them.
//!
//! Every command of frs writes its own pages: `frs --pages DIR`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

/// The shells with completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes the pages of `command` if the command line is `--pages DIR` and nothing else.
///
/// Returns the exit status, which is 1 if a file cannot be written. Standard error then has the
/// reason. `None` if no pages are asked for.
pub fn write_if_asked(command: impl FnOnce() -> Command) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let asked = [arguments.next()?, arguments.next()?];
    let [option, into] = asked;
    if option != "--pages" || arguments.next().is_some() {
        return None;
    }
    let into = Path::new(&into);
    match write(command(), into) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("{}: {error}", into.display());
            Some(ExitCode::FAILURE)
        }
    }
}

/// Writes `man/*.1`, a page for the command and one for each of its subcommands, and
/// `completions/`, a file for each shell under the name that the shell looks for. Creates the
/// folders.
pub fn write(command: Command, into: &Path) -> io::Result<()> {
    let [man, completions] = ["man", "completions"].map(|name| into.join(name));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    let mut completed = command.clone();
    let name = command.get_name().to_owned();
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut completed, &name, &completions)?;
    }
    // `help` repeats the other subcommands, and would have a page for each of them.
    clap_mangen::generate_to(command.disable_help_subcommand(true), &man)
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn a_page_for_each_subcommand_and_a_file_for_each_shell() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("made");
        let part = Command::new("part").about("Does a part").arg(Arg::new("depth").long("depth"));
        write(Command::new("whole").version("7.1").subcommand(part), &into).unwrap();

        let mut names: Vec<String> = ["man", "completions"]
            .iter()
            .flat_map(|folder| fs::read_dir(into.join(folder)).unwrap())
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["_whole", "whole-part.1", "whole.1", "whole.bash", "whole.fish"]);

        let page = fs::read_to_string(into.join("man/whole-part.1")).unwrap();
        assert!(page.contains("Does a part") && page.contains("\\-\\-depth"), "{page}");
        let completion = fs::read_to_string(into.join("completions/whole.bash")).unwrap();
        assert!(completion.contains("--depth"), "{completion}");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write(Command::new("whole"), file.path()).is_err());
    }
}
