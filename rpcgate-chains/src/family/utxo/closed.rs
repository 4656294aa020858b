//! What nobody may call on a node of the family: its wallet and its own controls.
//!
//! Signing and building with what the caller sends along (`signrawtransactionwithkey`, `createrawtransaction`, …)
//! touches no wallet and stays open, and so does handing over a mined block.

/// Beginnings of names, which hold for what later versions add too. In alphabetical order.
pub const PREFIXES: &[&str] =
    &["dump", "generate", "import", "load", "rescan", "sendto", "set", "unload", "wallet"];

/// Methods by name. In alphabetical order.
pub const NAMES: &[&str] = &[
    "abandontransaction",
    "abortprivatebroadcast",
    "abortrescan",
    "addconnection",
    "addmultisigaddress",
    "addnode",
    "addpeeraddress",
    "addwitnessaddress",
    "backupwallet",
    "bumpfee",
    "clearbanned",
    "createwallet",
    "createwalletdescriptor",
    "disconnectnode",
    "encryptwallet",
    "enumeratesigners",
    "exportwatchonlywallet",
    "fundrawtransaction",
    "getaccount",
    "getaccountaddress",
    "getaddressesbyaccount",
    "getaddressesbylabel",
    "getaddressinfo",
    "getbalance",
    "getbalances",
    "getblockfrompeer",
    "getgenerate",
    "gethdkeys",
    "getnewaddress",
    "getrawchangeaddress",
    "getreceivedbyaccount",
    "getreceivedbyaddress",
    "getreceivedbylabel",
    "gettransaction",
    "getunconfirmedbalance",
    "getwalletinfo",
    "getwork",
    "invalidateblock",
    "keypoolrefill",
    "listaccounts",
    "listaddressgroupings",
    "listdescriptors",
    "listlabels",
    "listlockunspent",
    "listreceivedbyaccount",
    "listreceivedbyaddress",
    "listreceivedbylabel",
    "listsinceblock",
    "listtransactions",
    "listunspent",
    "listwalletdir",
    "listwallets",
    "listwallettransactions",
    "lockunspent",
    "logging",
    "migratewallet",
    "mockscheduler",
    "move",
    "newkeypool",
    "preciousblock",
    "prioritisetransaction",
    "pruneblockchain",
    "psbtbumpfee",
    "reconsiderblock",
    "removeprunedfunds",
    "resendwallettransactions",
    "restorewallet",
    "savemempool",
    "send",
    "sendall",
    "sendfrom",
    "sendmany",
    "sendmsgtopeer",
    "signmessage",
    "signrawtransaction",
    "signrawtransactionwithwallet",
    "simulaterawtransaction",
    "stop",
    "syncwithvalidationinterfacequeue",
    "upgradewallet",
];

pub(super) fn is_closed(method: &str) -> bool {
    NAMES.binary_search(&method).is_ok() || PREFIXES.iter().any(|prefix| method.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_say_nothing_twice() {
        assert!(NAMES.is_sorted_by(|a, b| a < b) && PREFIXES.is_sorted_by(|a, b| a < b));
        for name in NAMES {
            assert!(!PREFIXES.iter().any(|prefix| name.starts_with(prefix)), "{name}");
        }
    }

    /// The categories "Wallet" and "Generating" of Litecoin Core 0.21.2.1's `help`, and those methods of the others
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

    /// The rest of that `help`.
    #[test]
    fn everything_else_of_a_real_node_is_open() {
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
