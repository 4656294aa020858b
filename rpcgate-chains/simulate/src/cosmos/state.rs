//! Accounts and their coins.

use super::address::{ACCOUNT, Address, of_key, read, text};
use super::tx::{Coin, Tx};
use crate::hash::sha256;
use crate::ledger::{GroupPayment, GroupTraffic, Mempool};
use crate::seed::Seed;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The denomination of the chain's own coin, in its smallest unit.
pub(crate) const COIN: &str = "uatom";
/// The fee of a resident's transfer, in `uatom`.
pub(crate) const RESIDENT_FEE: u128 = 1_500;
const MILLION: u128 = 1_000_000;
/// The supply at the starting height, and the growth with each block, in `uatom`.
const SUPPLY: u128 = 487_000_000 * MILLION;
const MINTED: u128 = 9_200_000;
/// The number of the first account that a client creates.
const NEXT_ACCOUNT: u64 = 3_650_000;

/// Coins of other chains: the channel and name of each, and its amount on this chain.
const FOREIGN: [(&str, u128); 7] = [
    ("transfer/channel-141/uosmo", 912_345_678_901),
    ("transfer/channel-207/ujuno", 55_120_774_123),
    ("transfer/channel-391/ustride", 7_004_511_902),
    ("transfer/channel-536/uusdc", 1_830_226_118_474),
    ("transfer/channel-569/untrn", 302_447_900_118),
    ("transfer/channel-617/utia", 18_337_009_221),
    ("transfer/channel-750/uakt", 4_118_907_000),
];

/// Addresses of the first ten accounts of the mnemonic of development nodes (`test test … junk`) on the
/// path m/44'/118'/0'/0/n.
const DEVELOPERS: [&str; 10] = [
    "a12daaf3c2c1505b288353b62cb3b4021c60c344",
    "c8cc98c3a502a5562219e7a40af5543e2dbb7b04",
    "bafbbe8f26e9ae86c02f373500872437bac5b003",
    "2aecc431d75c6670e00468f00ae0ceb8ce30a919",
    "d5704d49f4946dd07c4040a65dc845a3012b9b77",
    "3e7eadb51093982c8b94c4a04e10cfe0f9510f6a",
    "7020d6873fe227bf42157878e53dbdc753701d16",
    "e0d87f3e38302642ef006f0f99debb6dccf3528d",
    "fdf58377b4bfdee67a329616addbc650b43079b9",
    "49eb85445797dad8251a9d485ab15a7b28469ecb",
];

/// The accounts of the foundation and of the modules, the purpose of each, and its balance in `uatom`.
/// The address of a module is the hash of its name.
const FOUNDATION: [(&str, u128); 2] = [
    ("cosmos1sufkm72dw7ua9crpfhhp0dqpyuggtlhdse98e7", 1_000_007 * MILLION),
    ("cosmos1z6czaavlk6kjd48rpf58kqqw9ssad2uaxnazgl", 5_612_889 * MILLION),
];
const MODULES: [(&str, u128); 6] = [
    ("fee_collector", 12_345_678),
    ("distribution", 9_400_000 * MILLION),
    ("bonded_tokens_pool", 291_000_000 * MILLION),
    ("not_bonded_tokens_pool", 11_800_000 * MILLION),
    ("gov", 512 * MILLION),
    ("mint", 0),
];

/// Coins by denomination.
pub(crate) type Coins = BTreeMap<String, u128>;

/// Returns the denomination of a coin that came over this channel (ICS 20).
fn voucher(trace: &str) -> String {
    format!("ibc/{}", hex::encode_upper(sha256(trace.as_bytes())))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) number: u64,
    /// The sequence of its next transaction.
    pub(crate) sequence: u64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) coins: Coins,
}

/// An account that makes the chain's own traffic.
#[derive(Debug, Clone)]
struct Resident {
    address: Address,
    key: Vec<u8>,
    number: u64,
    coins: Coins,
}

/// One transfer of the chain's own traffic.
#[derive(Debug, Clone)]
pub(crate) struct Transfer {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: u64,
    pub(crate) amount: u128,
}

/// The positions of the chain's own transactions in the kept blocks; built on the first look-up.
#[derive(Debug, Default)]
pub(crate) struct ResidentIndex {
    pub(crate) places: HashMap<[u8; 32], (u64, usize)>,
    pub(crate) order: VecDeque<(u64, [u8; 32])>,
    /// The last height in the index.
    pub(crate) last: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    base: u64,
    traffic: GroupTraffic,
    residents: Vec<Resident>,
    /// Coins that clients sent to residents.
    gifts: BTreeMap<Address, Coins>,
    /// All other accounts.
    accounts: BTreeMap<Address, Account>,
    created: u64,
    pub(crate) waiting: Mempool<Arc<Tx>>,
    pub(crate) index: ResidentIndex,
}

fn add(coins: &mut Coins, coin: &Coin) {
    let amount = coins.entry(coin.denom.clone()).or_default();
    *amount = amount.saturating_add(coin.amount);
}

impl State {
    /// Creates the state before any transaction of a client, for a chain that starts at height `base`.
    pub(crate) fn new(seed: Seed, base: u64) -> Self {
        let residents = (0..GroupTraffic::RESIDENTS).map(|n| {
            let mut key = vec![2 + (n & 1) as u8];
            key.extend(seed.bytes::<32>("key", n));
            let mut coins = Coins::new();
            coins.insert(COIN.into(), (50_000 + u128::from(seed.below("wealth", n, 400_000))) * MILLION);
            for (index, (trace, amount)) in FOREIGN.iter().enumerate() {
                if seed.below("foreign", n << 8 | index as u64, 3) == 0 {
                    coins.insert(voucher(trace), amount / u128::from(100 + n));
                }
            }
            let number = 1_000 + n * 40_000 + seed.below("number", n, 40_000);
            Resident { address: of_key(&key), key, number, coins }
        });
        let accounts = DEVELOPERS.iter().zip(0..).filter_map(|(address, n)| {
            let coins = [(COIN.to_owned(), 10_000 * MILLION), (voucher(FOREIGN[3].0), 1_000 * MILLION)];
            let account = Account { number: 900 + n, sequence: 0, key: None, coins: coins.into() };
            Some((hex::decode(address).ok()?, account))
        });
        let foundation =
            FOUNDATION.iter().filter_map(|(text, amount)| Some((read(ACCOUNT, text).ok()?, *amount)));
        let modules = MODULES
            .iter()
            .filter_map(|(name, amount)| Some((sha256(name.as_bytes()).get(..20)?.to_vec(), *amount)));
        let old = foundation.chain(modules).zip(1..).map(|((address, amount), number)| {
            let coins = if amount > 0 { Coins::from([(COIN.to_owned(), amount)]) } else { Coins::new() };
            (address, Account { number, sequence: 0, key: None, coins })
        });
        State {
            base,
            traffic: GroupTraffic::new(seed, 50_000_000, |group| seed.below("traffic", group, 3)),
            residents: residents.collect(),
            gifts: BTreeMap::new(),
            accounts: accounts.chain(old).collect(),
            created: 0,
            waiting: Mempool::default(),
            index: ResidentIndex::default(),
        }
    }

    /// Returns the chain's own transfers in block `height`.
    pub(crate) fn transfers(&self, height: u64) -> Vec<Transfer> {
        let transfer = |GroupPayment { payer, payee, sequence, amount }| {
            let from = self.residents.get(payer as usize)?;
            let to = self.residents.get(payee as usize)?;
            let key = from.key.clone();
            let to = to.address.clone();
            let from = from.address.clone();
            Some(Transfer { from, to, key, sequence, amount: amount.into() })
        };
        self.traffic.of_block(height).filter_map(transfer).collect()
    }

    fn resident(&self, n: usize, height: u64) -> Option<Account> {
        let resident = self.residents.get(n)?;
        let n = n as u64;
        let sequence = self.traffic.sent(n, height);
        let before = self.traffic.sent(n, self.base);
        let mut coins = resident.coins.clone();
        let own = coins.entry(COIN.into()).or_default();
        *own = own.saturating_sub(RESIDENT_FEE * u128::from(sequence.saturating_sub(before)));
        *own += RESIDENT_FEE * u128::from(before.saturating_sub(sequence));
        *own = own.saturating_add_signed(self.traffic.gain(n, height).into());
        for (denom, amount) in self.gifts.get(&resident.address).into_iter().flatten() {
            add(&mut coins, &Coin { denom: denom.clone(), amount: *amount });
        }
        let key = (sequence > 0).then(|| resident.key.clone());
        Some(Account { number: resident.number, sequence, key, coins })
    }

    /// Returns an account after block `height`; `None` for an address that never received coins.
    pub(crate) fn account(&self, address: &[u8], height: u64) -> Option<Account> {
        match self.residents.iter().position(|resident| resident.address == address) {
            Some(n) => self.resident(n, height),
            None => self.accounts.get(address).cloned(),
        }
    }

    /// Returns all accounts, ordered by address.
    pub(crate) fn all(&self, height: u64) -> Vec<(Address, Account)> {
        let residents = self.residents.iter().enumerate();
        let residents =
            residents.filter_map(|(n, resident)| Some((resident.address.clone(), self.resident(n, height)?)));
        let others = self.accounts.iter().map(|(address, account)| (address.clone(), account.clone()));
        let mut all: Vec<_> = residents.chain(others).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Returns the account of a client that sends; residents send only the chain's own traffic.
    pub(crate) fn sender(&mut self, address: &[u8]) -> Option<&mut Account> {
        self.accounts.get_mut(address)
    }

    /// Pays coins to an address and creates the account if it does not exist.
    pub(crate) fn pay(&mut self, to: &[u8], coins: &[Coin]) {
        let purse = if self.residents.iter().any(|resident| resident.address == to) {
            self.gifts.entry(to.to_vec()).or_default()
        } else {
            let created = &mut self.created;
            let account = self.accounts.entry(to.to_vec()).or_insert_with(|| {
                *created += 1;
                let number = NEXT_ACCOUNT + *created;
                Account { number, sequence: 0, key: None, coins: Coins::new() }
            });
            &mut account.coins
        };
        coins.iter().for_each(|coin| add(purse, coin));
    }

    /// Returns the total supply after block `height`.
    pub(crate) fn supply(&self, height: u64) -> Coins {
        let grown = |from: u64, to: u64| MINTED * u128::from(to.saturating_sub(from));
        let own = (SUPPLY + grown(self.base, height)).saturating_sub(grown(height, self.base));
        let foreign = FOREIGN.iter().map(|(trace, amount)| (voucher(trace), *amount));
        foreign.chain([(COIN.to_owned(), own)]).collect()
    }
}

/// Takes the coins of a transfer from its sender. An error names the missing coins.
pub(crate) fn take(coins: &mut Coins, wanted: &[Coin]) -> Result<(), String> {
    let mut left = coins.clone();
    for coin in wanted {
        let amount = left.get(&coin.denom).copied().unwrap_or(0);
        let Some(rest) = amount.checked_sub(coin.amount) else {
            return Err(format!(
                "spendable balance {amount}{0} is smaller than {1}{0}: insufficient funds",
                coin.denom, coin.amount
            ));
        };
        if rest == 0 {
            left.remove(&coin.denom);
        } else {
            left.insert(coin.denom.clone(), rest);
        }
    }
    *coins = left;
    Ok(())
}

pub(crate) fn name(address: &[u8]) -> String {
    text(super::address::ACCOUNT, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coins_of_other_chains_have_the_names_they_have_on_the_hub() {
        let osmo = "ibc/14F9BC3E44B8A9C1BE1FB08980FAB87034C9905EF17CF2F5008FC085218811CC";
        assert_eq!(voucher(FOREIGN[0].0), osmo);
        let usdc = "ibc/F663521BF1836B00F5F177680F74BFB9A8B5654A694D0D2BC249E03CF2509013";
        assert_eq!(voucher(FOREIGN[3].0), usdc);
    }

    #[test]
    fn residents_pay_what_their_turns_say() {
        let state = State::new(Seed::of("cosmos", 3), 29_000_000);
        for height in 29_000_000..29_000_100 {
            for n in 0..state.residents.len() {
                let address = state.residents[n].address.clone();
                let before = state.resident(n, height - 1).unwrap();
                let after = state.resident(n, height).unwrap();
                let mut own = before.coins[COIN];
                let mut sequence = before.sequence;
                for transfer in state.transfers(height) {
                    if transfer.from == address {
                        assert_eq!(transfer.sequence, sequence);
                        own -= transfer.amount + RESIDENT_FEE;
                        sequence += 1;
                    }
                    if transfer.to == address {
                        own += transfer.amount;
                    }
                }
                assert_eq!((after.coins[COIN], after.sequence), (own, sequence), "{n} at {height}");
            }
        }
    }

    #[test]
    fn an_account_cannot_pay_more_than_it_has() {
        let mut coins = Coins::from([("a".to_owned(), 5), ("b".to_owned(), 1)]);
        let coin = |denom: &str, amount| Coin { denom: denom.into(), amount };
        assert!(take(&mut coins, &[coin("a", 5), coin("b", 2)]).is_err());
        assert_eq!(coins.len(), 2);
        assert_eq!(take(&mut coins, &[coin("a", 5)]), Ok(()));
        assert_eq!(coins, Coins::from([("b".to_owned(), 1)]));
    }
}
