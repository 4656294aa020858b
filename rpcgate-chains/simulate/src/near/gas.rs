//! The gas of transactions.

use super::tx::Action;

/// The gas of a call of the token.
const CALL_GAS: u64 = 1_450_000_000_000;

/// Returns the gas for creating a receipt of these actions; running it costs the same again.
pub(crate) fn gas(actions: &[Action]) -> u64 {
    let of = |action: &Action| match action {
        Action::CreateAccount => 3_850_000_000_000,
        Action::DeployContract(code) => 184_765_750_000 + 6_812_999 * code.len() as u64,
        Action::FunctionCall { method, args, .. } => {
            200_000_000_000 + 2_235_934 * (method.len() + args.len()) as u64
        }
        Action::Transfer(_) => 115_123_062_500,
        Action::Stake(..) => 141_715_687_500,
        Action::AddKey(..) => 101_765_125_000,
        Action::DeleteKey(_) => 94_946_625_000,
        Action::DeleteAccount(_) => 147_489_000_000,
    };
    actions.iter().map(of).fold(108_059_500_000, u64::saturating_add)
}

/// Returns the gas of a transaction and its receipt.
pub(crate) fn total_gas(actions: &[Action]) -> u64 {
    let calls = actions.iter().filter(|action| matches!(action, Action::FunctionCall { .. })).count() as u64;
    gas(actions).saturating_mul(2).saturating_add(calls * CALL_GAS)
}
