//! The closed methods of a UTXO node: its wallet and its controls.
//!
//! Methods that sign or build with the caller's data (`signrawtransactionwithkey`, `createrawtransaction`, …) use no
//! wallet and stay open, and so do those that submit a mined block.

use crate::family::params::{any_is, integer, mentions, positional};
use crate::family::{Closing, by_reason, listed};
use rpcgate_core::adapter::ClosedMethods;

const CONTROL: &str = "It controls the node";
const FILES: &str = "It reads or writes files or keys of the node, which its parameters name";
const MINES: &str = "It mines with the node";
const PEERS: &str = "It makes the node dial, drop, ban or query peers that its parameters name";
const STARTS: &str = "It starts a program on the node's machine";
const VIEW: &str = "It changes which blocks or transactions the node prefers";
const WALLET: &str = "It is the wallet of the node";

/// Prefixes of names, which also cover methods of later versions, with the reason. In alphabetical order.
pub const PREFIXES: &[(&str, &str)] = &[
    ("dump", FILES),
    ("generate", MINES),
    ("import", FILES),
    ("load", FILES),
    ("rescan", WALLET),
    ("sendto", WALLET),
    ("set", CONTROL),
    ("unload", WALLET),
    ("wallet", WALLET),
];

/// Methods by name, with the reason. In alphabetical order.
pub const NAMES: &[(&str, &str)] = &[
    ("abandontransaction", WALLET),
    ("abortprivatebroadcast", VIEW),
    ("abortrescan", WALLET),
    ("addconnection", PEERS),
    ("addmultisigaddress", WALLET),
    ("addnode", PEERS),
    ("addpeeraddress", PEERS),
    ("addwitnessaddress", WALLET),
    ("backupwallet", FILES),
    ("bumpfee", WALLET),
    ("clearbanned", PEERS),
    ("createwallet", WALLET),
    ("createwalletdescriptor", WALLET),
    ("disconnectnode", PEERS),
    ("echoipc", STARTS),
    ("encryptwallet", WALLET),
    ("enumeratesigners", STARTS),
    ("exportwatchonlywallet", FILES),
    ("fillmempool", CONTROL),
    ("fundrawtransaction", WALLET),
    ("getaccount", WALLET),
    ("getaccountaddress", WALLET),
    ("getaddressesbyaccount", WALLET),
    ("getaddressesbylabel", WALLET),
    ("getaddressinfo", WALLET),
    ("getbalance", WALLET),
    ("getbalances", WALLET),
    ("getblockfrompeer", PEERS),
    ("getgenerate", MINES),
    ("gethdkeys", WALLET),
    ("getnewaddress", WALLET),
    ("getrawchangeaddress", WALLET),
    ("getreceivedbyaccount", WALLET),
    ("getreceivedbyaddress", WALLET),
    ("getreceivedbylabel", WALLET),
    ("gettransaction", WALLET),
    ("getunconfirmedbalance", WALLET),
    ("getwalletinfo", WALLET),
    ("getwork", MINES),
    ("invalidateblock", VIEW),
    ("keypoolrefill", WALLET),
    ("listaccounts", WALLET),
    ("listaddressgroupings", WALLET),
    ("listdescriptors", WALLET),
    ("listlabels", WALLET),
    ("listlockunspent", WALLET),
    ("listreceivedbyaccount", WALLET),
    ("listreceivedbyaddress", WALLET),
    ("listreceivedbylabel", WALLET),
    ("listsinceblock", WALLET),
    ("listtransactions", WALLET),
    ("listunspent", WALLET),
    ("listwalletdir", WALLET),
    ("listwallets", WALLET),
    ("listwallettransactions", WALLET),
    ("lockunspent", WALLET),
    ("logging", CONTROL),
    ("migratewallet", WALLET),
    ("mockscheduler", CONTROL),
    ("move", WALLET),
    ("newkeypool", WALLET),
    ("preciousblock", VIEW),
    ("prioritisetransaction", VIEW),
    ("pruneblockchain", CONTROL),
    ("psbtbumpfee", WALLET),
    ("reconsiderblock", VIEW),
    ("removeprunedfunds", WALLET),
    ("resendwallettransactions", WALLET),
    ("restorewallet", FILES),
    ("savemempool", FILES),
    ("send", WALLET),
    ("sendall", WALLET),
    ("sendfrom", WALLET),
    ("sendmany", WALLET),
    ("sendmsgtopeer", PEERS),
    ("signmessage", WALLET),
    ("signrawtransaction", WALLET),
    ("signrawtransactionwithwallet", WALLET),
    ("simulaterawtransaction", WALLET),
    ("stop", CONTROL),
    ("syncwithvalidationinterfacequeue", CONTROL),
    ("upgradewallet", WALLET),
];

/// Methods, and calls of otherwise open methods, that would block a node.
pub(super) const HEAVY: &[Closing] = &[
    Closing::new(
        &["gettxoutsetinfo"],
        "The node walks its whole set of unspent outputs for it, and goes on when the caller has gone",
    )
    .openable(),
    Closing::new(
        &["scanblocks", "scantxoutset"],
        "It blocks the node for minutes, or ends the scan of another caller",
    )
    .openable(),
    Closing::new(&["verifychain"], "It makes the node check as many blocks as its parameters request")
        .openable(),
    Closing::new(
        &["waitforblock", "waitforblockheight", "waitfornewblock"],
        "It keeps one of the node's few workers until a block comes, for ever if the caller chooses",
    )
    .openable(),
    Closing::new(
        &["getblocktemplate", "getblocktemplatelight"],
        "It keeps one of the node's few workers until a block comes or the mempool changes",
    )
    .only("with `longpollid`", |call| mentions(call.params, "longpollid")),
    Closing::new(&["deriveaddresses"], "It derives up to a million addresses")
        .only("with a `range` of more than 1,000", |call| any_is(call.params, 1, "range", is_wide)),
];

/// The maximum number of addresses that one call may derive.
const WIDEST: u64 = 1_000;

/// Reports whether a descriptor's range, given by its end or by begin and end, may have more than [`WIDEST`] addresses.
fn is_wide(range: &[u8]) -> bool {
    let bounds = (positional(range, 0).and_then(integer), positional(range, 1).and_then(integer));
    match (range.trim_ascii(), bounds) {
        (b"null", _) => false,
        (_, (Some(begin), Some(end))) => end.saturating_sub(begin) > WIDEST,
        (end, _) => integer(end).is_none_or(|end| end > WIDEST),
    }
}

pub(super) fn is_closed(method: &str) -> bool {
    NAMES.binary_search_by_key(&method, |(name, _)| name).is_ok()
        || PREFIXES.iter().any(|(prefix, _)| method.starts_with(prefix))
}

pub(super) fn words() -> Vec<ClosedMethods> {
    let mut rows = by_reason(NAMES, str::to_owned);
    for row in by_reason(PREFIXES, |prefix| format!("{prefix}*")) {
        match rows.iter_mut().find(|other| other.because == row.because) {
            Some(other) => other.methods.extend(row.methods),
            None => rows.push(row),
        }
    }
    rows.extend(listed(HEAVY));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_have_no_duplicates() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0) && PREFIXES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, _) in NAMES {
            assert!(!PREFIXES.iter().any(|(prefix, _)| name.starts_with(prefix)), "{name}");
        }
    }

    /// The categories "Wallet" and "Generating" of Litecoin Core 0.21.2.1's `help`, and the methods of other categories
    /// that control the node.
    #[test]
    fn the_wallet_and_the_controls_of_a_real_node_are_closed() {
        let methods = "abandontransaction abortrescan addmultisigaddress backupwallet bumpfee createwallet dumpprivkey \
            dumpwallet encryptwallet getaddressesbylabel getaddressinfo getbalance getbalances getnewaddress \
            getrawchangeaddress getreceivedbyaddress getreceivedbylabel gettransaction getunconfirmedbalance \
            getwalletinfo importaddress importdescriptors importmulti importprivkey importprunedfunds importpubkey \
            importwallet keypoolrefill listaddressgroupings listlabels listlockunspent listreceivedbyaddress \
            listreceivedbylabel listsinceblock listtransactions listunspent listwalletdir listwallets \
            listwallettransactions loadwallet lockunspent psbtbumpfee removeprunedfunds rescanblockchain send sendmany \
            sendtoaddress sethdseed setlabel settxfee setwalletflag signmessage signrawtransactionwithwallet \
            unloadwallet upgradewallet walletcreatefundedpsbt walletlock walletpassphrase walletpassphrasechange \
            walletprocesspsbt generateblock generatetoaddress generatetodescriptor \
            stop logging addnode clearbanned disconnectnode setban setnetworkactive preciousblock pruneblockchain \
            savemempool prioritisetransaction fundrawtransaction invalidateblock reconsiderblock setmocktime \
            mockscheduler";
        for method in methods.split_whitespace() {
            assert!(is_closed(method), "{method}");
        }
    }

    /// The other methods of that `help`, without those that would block the node.
    #[test]
    fn all_other_methods_of_a_real_node_are_not_controls() {
        let methods = "getbestblockhash getblock getblockchaininfo getblockcount getblockfilter getblockhash \
            getblockheader getblockstats getchaintips getchaintxstats getdifficulty getmempoolancestors \
            getmempooldescendants getmempoolentry getmempoolinfo getrawmempool gettxout gettxoutproof gettxoutsetinfo \
            scantxoutset verifychain verifytxoutproof getmemoryinfo getrpcinfo help uptime getblocktemplate \
            getmininginfo getnetworkhashps submitblock submitheader getaddednodeinfo getconnectioncount getnettotals \
            getnetworkinfo getnodeaddresses getpeerinfo listbanned ping analyzepsbt combinepsbt combinerawtransaction \
            converttopsbt createpsbt createrawtransaction decodepsbt decoderawtransaction decodescript finalizepsbt \
            getrawtransaction joinpsbts sendrawtransaction signrawtransactionwithkey testmempoolaccept utxoupdatepsbt \
            createmultisig deriveaddresses estimatesmartfee getdescriptorinfo getindexinfo signmessagewithprivkey \
            validateaddress verifymessage";
        for method in methods.split_whitespace() {
            assert!(!is_closed(method), "{method}");
        }
    }
}
