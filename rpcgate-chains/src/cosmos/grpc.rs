//! The closed and the submitting methods of a Cosmos node's gRPC services.

use rpcgate_core::adapter::ClosedMethods;
use rpcgate_core::call::CallView;
use rpcgate_core::chain::{Flags, MethodRule};
use rpcgate_core::grpc::GrpcPath;

/// Closed services: their packages, the method if only one is closed, and the reason.
const CLOSED: &[(&[&str], Option<&str>, &str)] = &[
    (
        &["cometbft.abci", "tendermint.abci"],
        None,
        "It drives the application in place of the node's consensus",
    ),
    (&["cometbft.privval", "tendermint.privval"], None, "It signs with the key of a validator"),
    (&["cometbft.services.pruning"], None, "It decides which blocks the node keeps"),
    (
        &["cometbft.rpc.grpc", "tendermint.rpc.grpc"],
        Some("BroadcastTx"),
        "It waits until the transaction is in a block",
    ),
];

const TRANSACTIONS: &str = "cosmos.tx.v1beta1";
const BROADCAST: &str = "BroadcastTx";

/// The field number of `mode` in `cosmos.tx.v1beta1.BroadcastTxRequest`, and its value that waits for a block.
const MODE: u64 = 2;
const MODE_BLOCK: u32 = 1;

/// Returns the rule of a call; `rule` is the one by the method's name.
pub(super) fn rule(path: GrpcPath<'_>, mut rule: MethodRule) -> MethodRule {
    rule.flags = rule.flags.without(Flags::COMMANDS);
    let is_meant = |(packages, method, _): &(&[&str], Option<&str>, &str)| {
        packages.iter().any(|package| path.is_of(package))
            && method.is_none_or(|method| path.method() == method)
    };
    if CLOSED.iter().any(is_meant) {
        rule.flags = rule.flags.and(Flags::CLOSED);
    }
    if path.method().starts_with("Broadcast") {
        rule.flags = rule.flags.and(Flags::BROADCAST);
    }
    if path.is_of(TRANSACTIONS) && path.method() == BROADCAST {
        rule.flags = rule.flags.and(Flags::COMMANDS);
    }
    rule
}

/// Returns the rule of a broadcast with a known message.
pub(super) fn narrow(call: CallView<'_>) -> MethodRule {
    let mut rule = call.rule;
    if varints(call.body, MODE).any(|mode| mode as u32 == MODE_BLOCK) {
        rule.flags = rule.flags.and(Flags::CLOSED);
    }
    rule
}

pub(super) fn closed() -> impl Iterator<Item = ClosedMethods> {
    let services = CLOSED.iter().map(|(packages, method, because)| {
        let method = method.unwrap_or("*");
        let name = |package: &&str| format!("{package}.*/{method}");
        ClosedMethods::new(packages.iter().map(name).collect(), because).with_only("over gRPC")
    });
    let broadcast = ClosedMethods::new(
        vec![format!("{TRANSACTIONS}.Service/{BROADCAST}")],
        "The node waits until the transaction is in a block",
    );
    services.chain(std::iter::once(broadcast.with_only("over gRPC with the mode `BROADCAST_MODE_BLOCK`")))
}

/// Returns the values of a varint field (Protocol Buffers, "Encoding"), up to the first unreadable part.
fn varints(message: &[u8], field: u64) -> impl Iterator<Item = u64> {
    let mut rest = message;
    std::iter::from_fn(move || {
        loop {
            let tag = varint(&mut rest)?;
            let value = match tag & 7 {
                0 => Some(varint(&mut rest)?),
                1 => skipped(&mut rest, 8)?,
                2 => {
                    let length = varint(&mut rest)?;
                    skipped(&mut rest, usize::try_from(length).ok()?)?
                }
                5 => skipped(&mut rest, 4)?,
                // The beginning or end of a group, whose fields are read like others.
                _ => None,
            };
            // The decoders of nodes keep 32 bits of a field's number.
            if let Some(value) = value.filter(|_| u64::from((tag >> 3) as u32) == field) {
                return Some(value);
            }
        }
    })
}

/// Skips `length` bytes; `None` if there are fewer.
fn skipped(rest: &mut &[u8], length: usize) -> Option<Option<u64>> {
    *rest = rest.get(length..)?;
    Some(None)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for index in 0..10 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f).wrapping_shl(7 * index);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::Cosmos;
    use super::*;
    use crate::family::tests::at;

    #[test]
    fn services_that_control_a_node_are_closed_and_reads_need_no_message() {
        let chain = at(Cosmos, 0);
        let flags = |path| chain.look_up_grpc(GrpcPath::parse(path).unwrap()).rule.flags;
        for path in [
            "/cometbft.services.pruning.v1.PruningService/SetBlockRetainHeight",
            "/tendermint.abci.ABCIApplication/CheckTx",
            "/cometbft.abci.v1.ABCIService/Commit",
            "/tendermint.privval.PrivValidatorAPI/SignVote",
            "/tendermint.rpc.grpc.BroadcastAPI/BroadcastTx",
            "/cometbft.rpc.grpc.v1.BroadcastAPI/BroadcastTx",
        ] {
            assert!(flags(path).has(Flags::CLOSED), "{path}");
        }
        for path in [
            "/cosmos.bank.v1beta1.Query/SupplyOf",
            "/cosmos.base.tendermint.v1beta1.Service/ABCIQuery",
            "/ibc.core.client.v1.Query/ClientStates",
            "/cometbft.services.block.v1.BlockService/GetLatestHeight",
            "/cosmos.tx.v1beta1.Service/Simulate",
        ] {
            let flags = flags(path);
            assert!(!flags.has(Flags::CLOSED) && !flags.has(Flags::COMMANDS), "{path}");
            assert!(!flags.has(Flags::BROADCAST), "{path}");
        }
        let broadcast = flags("/cosmos.tx.v1beta1.Service/BroadcastTx");
        assert!(broadcast.has(Flags::BROADCAST) && broadcast.has(Flags::COMMANDS));
    }

    // Shows (Limits, budget and quota).
    #[test]
    fn a_broadcast_that_waits_for_a_block_is_closed() {
        let chain = at(Cosmos, 0);
        let path = GrpcPath::parse("/cosmos.tx.v1beta1.Service/BroadcastTx").unwrap();
        let rule = chain.look_up_grpc(path).rule;
        let is_closed = |message: &[u8]| {
            let call = CallView::new(chain.name(), "broadcasttx", rule).with_grpc(path.as_str(), message);
            chain.narrow(call).flags.has(Flags::CLOSED)
        };
        // `tx_bytes` is field 1, `mode` is field 2.
        for message in [
            &b"\x0a\x02\x10\x02\x10\x01"[..],
            b"\x10\x01",
            b"\x10\x02\x10\x01",
            b"\x10\x01\x10\x02",
            b"\x10\x81\x80\x00",
            b"\x10\x81\x80\x80\x80\x10",
            b"\x90\x00\x01",
            b"\x5b\x10\x01\x5c",
            b"\x90\x80\x80\x80\x80\x01\x01",
        ] {
            assert!(is_closed(message), "{message:?}");
        }
        for message in [
            &b""[..],
            b"\x0a\x02\x10\x01",
            b"\x0a\x02\x10\x01\x10\x02",
            b"\x10\x02",
            b"\x0a\x7f\x10\x01",
            b"\x18\x01",
            b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ] {
            assert!(!is_closed(message), "{message:?}");
        }
    }
}
