//! Names and codes of the XRP Ledger's serialized fields, transaction types and results, as listed in its documentation
//! ("Serialization Format", "Transaction Results").

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

/// Names by type. The table has the fields of transactions and account roots, without those of newer amendments.
const NAMES: &[(Kind, &[(u8, &str)])] = &[
    (Kind::Short, &[(1, "LedgerEntryType"), (2, "TransactionType"), (3, "SignerWeight"), (4, "TransferFee")]),
    (
        Kind::Int,
        &[
            (1, "NetworkID"),
            (2, "Flags"),
            (3, "SourceTag"),
            (4, "Sequence"),
            (5, "PreviousTxnLgrSeq"),
            (10, "Expiration"),
            (11, "TransferRate"),
            (12, "WalletSize"),
            (13, "OwnerCount"),
            (14, "DestinationTag"),
            (20, "QualityIn"),
            (21, "QualityOut"),
            (25, "OfferSequence"),
            (27, "LastLedgerSequence"),
            (28, "TransactionIndex"),
            (33, "SetFlag"),
            (34, "ClearFlag"),
            (35, "SignerQuorum"),
            (36, "CancelAfter"),
            (37, "FinishAfter"),
            (39, "SettleDelay"),
            (40, "TicketCount"),
            (41, "TicketSequence"),
            (42, "NFTokenTaxon"),
        ],
    ),
    (Kind::Long, &[(4, "OwnerNode"), (9, "DestinationNode")]),
    (Kind::Hash128, &[(1, "EmailHash")]),
    (
        Kind::Hash256,
        &[
            (5, "PreviousTxnID"),
            (6, "LedgerIndex"),
            (7, "WalletLocator"),
            (9, "AccountTxnID"),
            (10, "NFTokenID"),
            (17, "InvoiceID"),
            (22, "Channel"),
            (24, "CheckID"),
            (28, "NFTokenBuyOffer"),
            (29, "NFTokenSellOffer"),
        ],
    ),
    (
        Kind::Amount,
        &[
            (1, "Amount"),
            (2, "Balance"),
            (3, "LimitAmount"),
            (4, "TakerPays"),
            (5, "TakerGets"),
            (8, "Fee"),
            (9, "SendMax"),
            (10, "DeliverMin"),
            (18, "DeliveredAmount"),
            (19, "NFTokenBrokerFee"),
        ],
    ),
    (
        Kind::Blob,
        &[
            (1, "PublicKey"),
            (2, "MessageKey"),
            (3, "SigningPubKey"),
            (4, "TxnSignature"),
            (5, "URI"),
            (6, "Signature"),
            (7, "Domain"),
            (12, "MemoType"),
            (13, "MemoData"),
            (14, "MemoFormat"),
            (16, "Fulfillment"),
            (17, "Condition"),
        ],
    ),
    (
        Kind::Account,
        &[
            (1, "Account"),
            (2, "Owner"),
            (3, "Destination"),
            (4, "Issuer"),
            (5, "Authorize"),
            (6, "Unauthorize"),
            (8, "RegularKey"),
            (9, "NFTokenMinter"),
        ],
    ),
    (
        Kind::Object,
        &[
            (3, "CreatedNode"),
            (4, "DeletedNode"),
            (5, "ModifiedNode"),
            (6, "PreviousFields"),
            (7, "FinalFields"),
            (8, "NewFields"),
            (10, "Memo"),
            (11, "SignerEntry"),
            (16, "Signer"),
        ],
    ),
    (Kind::Array, &[(3, "Signers"), (4, "SignerEntries"), (8, "AffectedNodes"), (9, "Memos")]),
    (Kind::Small, &[(3, "TransactionResult"), (16, "TickSize")]),
    (
        Kind::Hash160,
        &[(1, "TakerPaysCurrency"), (2, "TakerPaysIssuer"), (3, "TakerGetsCurrency"), (4, "TakerGetsIssuer")],
    ),
    (Kind::Paths, &[(1, "Paths")]),
    (Kind::Hashes, &[(4, "NFTokenOffers"), (5, "CredentialIDs")]),
];

impl Field {
    pub(crate) fn of(kind: u8, code: u8) -> Option<Field> {
        let (kind, names) = NAMES.iter().find(|(known, _)| *known as u8 == kind)?;
        let (code, name) = names.iter().find(|(known, _)| *known == code)?;
        Some(Field { kind: *kind, code: *code, name })
    }

    pub(crate) fn named(name: &str) -> Option<Field> {
        NAMES.iter().find_map(|(kind, names)| {
            let (code, name) = names.iter().find(|(_, known)| *known == name)?;
            Some(Field { kind: *kind, code: *code, name })
        })
    }

    /// Reports whether the field is excluded from the signed bytes.
    pub(crate) fn is_signature(self) -> bool {
        matches!(self.name, "TxnSignature" | "Signature" | "Signers")
    }
}

const TYPES: &[(u64, &str)] = &[
    (0, "Payment"),
    (1, "EscrowCreate"),
    (2, "EscrowFinish"),
    (3, "AccountSet"),
    (4, "EscrowCancel"),
    (5, "SetRegularKey"),
    (7, "OfferCreate"),
    (8, "OfferCancel"),
    (10, "TicketCreate"),
    (12, "SignerListSet"),
    (13, "PaymentChannelCreate"),
    (14, "PaymentChannelFund"),
    (15, "PaymentChannelClaim"),
    (16, "CheckCreate"),
    (17, "CheckCash"),
    (18, "CheckCancel"),
    (19, "DepositPreauth"),
    (20, "TrustSet"),
    (21, "AccountDelete"),
    (25, "NFTokenMint"),
    (26, "NFTokenBurn"),
    (27, "NFTokenCreateOffer"),
    (28, "NFTokenCancelOffer"),
    (29, "NFTokenAcceptOffer"),
];

/// Returns the name of a transaction type.
pub(crate) fn type_name(code: u64) -> Option<&'static str> {
    TYPES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
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
