//! Names and codes of the XRP Ledger's serialized fields, transaction types and results, as listed in its documentation
//! ("Serialization Format", "Transaction Results").

use std::sync::LazyLock;

/// The type of a field, by its type code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Short = 1,
    Int = 2,
    Long = 3,
    Hash128 = 4,
    Hash256 = 5,
    Amount = 6,
    Blob = 7,
    Account = 8,
    Object = 14,
    Array = 15,
    Small = 16,
    Hash160 = 17,
    Paths = 18,
    Hashes = 19,
}

/// A field. Fields are ordered by type code and field code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Field {
    pub(crate) kind: Kind,
    pub(crate) code: u8,
    pub(crate) name: &'static str,
}

const KINDS: [Kind; 14] = [
    Kind::Short,
    Kind::Int,
    Kind::Long,
    Kind::Hash128,
    Kind::Hash256,
    Kind::Amount,
    Kind::Blob,
    Kind::Account,
    Kind::Object,
    Kind::Array,
    Kind::Small,
    Kind::Hash160,
    Kind::Paths,
    Kind::Hashes,
];

/// The fields of transactions and account roots, without those of newer amendments. A line of the file has the type
/// code, the field code and the name.
static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let field = |line: &'static str| {
        let mut parts = line.split(' ');
        let mut code = || parts.next()?.parse::<u8>().ok();
        let kind = code()?;
        let code = code()?;
        Some(Field { kind: KINDS.into_iter().find(|known| *known as u8 == kind)?, code, name: parts.next()? })
    };
    include_str!("fields.txt").lines().filter_map(field).collect()
});

impl Field {
    pub(crate) fn of(kind: u8, code: u8) -> Option<Field> {
        FIELDS.iter().copied().find(|field| (field.kind as u8, field.code) == (kind, code))
    }

    pub(crate) fn named(name: &str) -> Option<Field> {
        FIELDS.iter().copied().find(|field| field.name == name)
    }

    /// Reports whether the field is excluded from the signed bytes.
    pub(crate) fn is_signature(self) -> bool {
        matches!(self.name, "TxnSignature" | "Signature" | "Signers")
    }
}

/// The transaction types, each with its code.
fn types() -> impl Iterator<Item = (u64, &'static str)> {
    let rows = include_str!("types.txt").lines().filter_map(|line| line.split_once(' '));
    rows.filter_map(|(code, name)| Some((code.parse().ok()?, name)))
}

/// Returns the name of a transaction type.
pub(crate) fn type_name(code: u64) -> Option<&'static str> {
    types().find(|(known, _)| *known == code).map(|(_, name)| name)
}

/// The result of a transaction: name, code and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    pub(crate) code: i32,
    pub(crate) message: &'static str,
}

const fn engine(name: &'static str, code: i32, message: &'static str) -> Engine {
    Engine { name, code, message }
}

pub(crate) const SUCCESS: Engine =
    engine("tesSUCCESS", 0, "The transaction was applied. Only final in a validated ledger.");
pub(crate) const UNFUNDED: Engine = engine("tecUNFUNDED_PAYMENT", 104, "Insufficient XRP balance to send.");
pub(crate) const TOO_LITTLE: Engine =
    engine("tecNO_DST_INSUF_XRP", 125, "Destination does not exist. Too little XRP sent to create it.");
pub(crate) const PATH_DRY: Engine = engine("tecPATH_DRY", 128, "Path could not send partial amount.");
pub(crate) const LOW_FEE: Engine = engine("telINSUF_FEE_P", -394, "Fee insufficient.");
pub(crate) const OTHER_NETWORK: Engine = engine(
    "telNETWORK_ID_MAKES_TX_NON_CANONICAL",
    -384,
    "Transactions submitted to this network must NOT specify NetworkID.",
);
pub(crate) const BAD_AMOUNT: Engine = engine("temBAD_AMOUNT", -298, "Malformed: Bad amount.");
pub(crate) const REDUNDANT: Engine = engine("temREDUNDANT", -275, "The transaction is redundant.");
pub(crate) const DISABLED: Engine =
    engine("temDISABLED", -273, "The transaction requires logic that is currently disabled.");
pub(crate) const PAST: Engine = engine("tefPAST_SEQ", -190, "This sequence number has already passed.");
pub(crate) const BAD_AUTH: Engine =
    engine("tefBAD_AUTH", -196, "Transaction's public key is not authorized.");
pub(crate) const TOO_LATE: Engine = engine("tefMAX_LEDGER", -187, "Ledger sequence too high.");
pub(crate) const NO_ACCOUNT: Engine = engine("terNO_ACCOUNT", -96, "The source account does not exist.");
pub(crate) const NO_FEE: Engine = engine("terINSUF_FEE_B", -97, "Account balance can't pay fee.");
pub(crate) const EARLY: Engine = engine("terPRE_SEQ", -92, "Missing/inapplicable prior transaction.");
pub(crate) const FULL: Engine =
    engine("telCAN_NOT_QUEUE_FULL", -392, "Can not queue at this time: queue is full.");

impl Engine {
    /// Reports whether the transaction enters a ledger and pays its fee.
    pub(crate) fn enters(self) -> bool {
        self.code >= 0
    }
}

/// Returns a result in a ledger, by its code.
pub(crate) fn result_of(code: u64) -> Engine {
    [SUCCESS, UNFUNDED, TOO_LITTLE, PATH_DRY]
        .into_iter()
        .find(|engine| engine.code as u64 == code)
        .unwrap_or(engine("tecCLAIM", 100, "Fee claimed. Sequence used. No action."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_files_is_a_field_or_a_type() {
        assert_eq!(FIELDS.len(), include_str!("fields.txt").lines().count());
        assert_eq!(types().count(), include_str!("types.txt").lines().count());
        assert_eq!(Field::named("Account").map(|field| (field.kind, field.code)), Some((Kind::Account, 1)));
        assert_eq!(type_name(3), Some("AccountSet"));
    }
}
