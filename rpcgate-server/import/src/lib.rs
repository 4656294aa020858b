//! Converts another gateway's configuration (eRPC, proxyd, dshackle or Kong) to ours.
//!
//! The reader of each form puts everything with a counterpart into a draft. Everything that no reader took is listed
//! with its line. No secret of the file is written or shown: a key becomes its digest, and a node's credential becomes
//! an environment variable that has to be set. The new file is checked as `rpcgate-server check` would check it, and
//! settings that it would refuse are left out and listed too.
//!
//! ```
//! use rpcgate_import::{GatewayChecks, SourceForm, import};
//!
//! let erpc = "projects:
//!   - id: main
//!     upstreams:
//!       - endpoint: http://10.0.0.1:8545
//!         evm: { chainId: 1 }
//! ";
//! let checks = GatewayChecks { node_url: |_, _| Ok(()), redis: |_| Ok(()) };
//! let imported = import("erpc.yaml", erpc, None, None, checks)?;
//! assert_eq!(imported.form, SourceForm::Erpc);
//! assert!(imported.toml.contains("[[chains.eth.nodes]]\nurl = \"http://10.0.0.1:8545\"\n"));
//! # Ok::<(), rpcgate_import::ImportError>(())
//! ```

mod accounts;
mod advice;
mod compare;
mod document;
mod draft;
mod dshackle;
mod erpc;
mod erpc_budgets;
mod erpc_project;
mod error;
mod kong;
mod kong_plugins;
mod kong_routes;
mod networks;
mod nodes;
mod note;
mod position;
mod proxyd;
mod service;
#[cfg(test)]
mod tests;
mod value;
mod write;

pub use error::ImportError;
pub use note::{ImportNote, NoteKind};

use advice::{Advice, note_unused};
use document::{Node, toml, yaml};
use draft::Draft;
use rpcgate_config::Config;
use rpcgate_core::chain::ChainName;
use rpcgate_core::tally::Transport;
use value::VariableForm;

/// The maximum size of a file, in bytes.
pub const MAX_SOURCE: usize = 1024 * 1024;

/// The gateways whose files can be imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum SourceForm {
    /// eRPC's YAML
    Erpc,
    /// proxyd's TOML
    Proxyd,
    /// dshackle's YAML
    Dshackle,
    /// Kong's declarative YAML
    Kong,
}

impl SourceForm {
    /// All forms.
    pub const ALL: [SourceForm; 4] =
        [SourceForm::Erpc, SourceForm::Proxyd, SourceForm::Dshackle, SourceForm::Kong];

    /// Returns the product's name.
    pub const fn title(self) -> &'static str {
        match self {
            SourceForm::Erpc => "eRPC",
            SourceForm::Proxyd => "proxyd",
            SourceForm::Dshackle => "dshackle",
            SourceForm::Kong => "Kong",
        }
    }

    const fn variables(self) -> VariableForm {
        match self {
            SourceForm::Erpc => VariableForm::Shell,
            SourceForm::Proxyd => VariableForm::Whole,
            SourceForm::Dshackle => VariableForm::Braces,
            SourceForm::Kong => VariableForm::Vault,
        }
    }

    /// Returns the keys by which the form is recognised: a file has at least one of them, as a list or table.
    const fn marks(self) -> (&'static [&'static str], &'static str) {
        match self {
            SourceForm::Erpc => (&["projects"], "projects"),
            SourceForm::Proxyd => (&["backends", "backend_groups"], "backends and backend_groups"),
            SourceForm::Dshackle => (&["cluster", "upstreams"], "cluster and upstreams"),
            SourceForm::Kong => (
                &["services", "routes", "upstreams", "consumers"],
                "services, routes, upstreams and consumers",
            ),
        }
    }

    fn fits(self, root: &Node) -> bool {
        self.marks().0.iter().any(|key| root.get(key).is_some_and(|node| node.is_list() || node.is_table()))
    }

    fn parse(self, text: &str) -> Result<Node, ImportError> {
        match self {
            SourceForm::Proxyd => toml::parse(text),
            _ => yaml::parse(text),
        }
    }
}

/// The checks of a gateway that go beyond those of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct GatewayChecks {
    /// Checks that the node pool can use a URL over a transport. The error ends the sentence "it …".
    pub node_url: fn(&str, Transport) -> Result<(), String>,
    /// Checks the settings of Redis.
    pub redis: fn(&Config) -> Result<(), String>,
}

/// A converted file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The form of the file.
    pub form: SourceForm,
    /// The text of our configuration file, with the notes as comments.
    pub toml: String,
    /// The notes for people, by the lines of the file.
    pub notes: Vec<ImportNote>,
}

/// Makes our configuration of `text`, the content of the file `name`. Without a `form` it is recognised if it is clear. The
/// `chain` is that of nodes for which the file names none. What `checks` refuse is left out, with a note.
///
/// # Errors
/// [`ImportError`] if the file cannot be read at all. A setting that cannot be carried over is not an error.
pub fn import(
    name: &str,
    text: &str,
    form: Option<SourceForm>,
    chain: Option<&str>,
    checks: GatewayChecks,
) -> Result<Imported, ImportError> {
    if text.len() > MAX_SOURCE {
        return Err(ImportError::TooLarge { limit: MAX_SOURCE });
    }
    if is_program(name) {
        return Err(ImportError::Program);
    }
    let chain = chain
        .map(|name| networks::by_name(name).ok_or_else(|| ImportError::UnknownChain(name.to_owned())))
        .transpose()?;
    let (form, root) = recognised(text, form)?;
    if !form.fits(&root) {
        return Err(ImportError::Unlike { form, wanted: form.marks().1 });
    }
    let mut draft = Draft::new(form.variables(), checks);
    let known = read(form, &root, chain, &mut draft)?;
    note_unused(&root, known, &mut draft.notes);
    compare::note_ignored(form, &root, chain, &mut draft);
    let (toml, notes) = write::settled(&mut draft, form, name)?;
    Ok(Imported { form, toml, notes })
}

/// Reports whether the file is a program: eRPC also reads TypeScript, which only eRPC can run.
fn is_program(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    ending.is_some_and(|ending| matches!(&*ending, "ts" | "js" | "mts" | "mjs" | "cts" | "cjs"))
}

fn read(
    form: SourceForm,
    root: &Node,
    chain: Option<ChainName>,
    draft: &mut Draft,
) -> Result<&'static [Advice], ImportError> {
    match form {
        SourceForm::Erpc => erpc::read(root, chain, draft),
        SourceForm::Proxyd => proxyd::read(root, chain, draft)?,
        SourceForm::Dshackle => dshackle::read(root, chain, draft),
        SourceForm::Kong => kong::read(root, chain, draft),
    }
    Ok(match form {
        SourceForm::Erpc => erpc::ADVICE,
        SourceForm::Proxyd => proxyd::ADVICE,
        SourceForm::Dshackle => dshackle::ADVICE,
        SourceForm::Kong => kong::ADVICE,
    })
}

/// Detects the form of the file and parses it.
fn recognised(text: &str, form: Option<SourceForm>) -> Result<(SourceForm, Node), ImportError> {
    if let Some(form) = form {
        return Ok((form, form.parse(text)?));
    }
    let as_toml = toml::parse(text);
    let as_yaml = yaml::parse(text);
    if let Ok(root) = &as_toml
        && SourceForm::Proxyd.fits(root)
    {
        return Ok((SourceForm::Proxyd, as_toml?));
    }
    let root = as_yaml?;
    if root.get("_format_version").is_some() {
        return Ok((SourceForm::Kong, root));
    }
    let mut fitting = vec![SourceForm::Erpc, SourceForm::Dshackle, SourceForm::Kong];
    fitting.retain(|form| form.fits(&root));
    match fitting[..] {
        [form] => Ok((form, root)),
        _ => Err(ImportError::Ambiguous),
    }
}
