//! Constants of the network that no transaction changes here.

/// The chain parameters by their names in `getchainparameters`; a value of 0 is not shown.
pub(super) const PARAMETERS: &[(&str, i64)] = &[
    ("getMaintenanceTimeInterval", 21_600_000),
    ("getAccountUpgradeCost", 9_999_000_000),
    ("getCreateAccountFee", 100_000),
    ("getTransactionFee", 1_000),
    ("getAssetIssueFee", 1_024_000_000),
    ("getWitnessPayPerBlock", 8_000_000),
    ("getWitnessStandbyAllowance", 115_200_000_000),
    ("getCreateNewAccountFeeInSystemContract", 1_000_000),
    ("getCreateNewAccountBandwidthRate", 1),
    ("getAllowCreationOfContracts", 1),
    ("getRemoveThePowerOfTheGr", -1),
    ("getEnergyFee", 100),
    ("getExchangeCreateFee", 1_024_000_000),
    ("getMaxCpuTimeOfOneTx", 80),
    ("getAllowUpdateAccountName", 0),
    ("getAllowSameTokenName", 1),
    ("getAllowDelegateResource", 1),
    ("getTotalEnergyLimit", 180_000_000_000),
    ("getAllowTvmTransferTrc10", 1),
    ("getTotalEnergyCurrentLimit", 180_000_000_000),
    ("getAllowMultiSign", 1),
    ("getAllowAdaptiveEnergy", 0),
    ("getTotalEnergyTargetLimit", 6_250_000),
    ("getTotalEnergyAverageUsage", 0),
    ("getUpdateAccountPermissionFee", 100_000_000),
    ("getMultiSignFee", 1_000_000),
    ("getAllowAccountStateRoot", 0),
    ("getAllowProtoFilterNum", 0),
    ("getAllowTvmConstantinople", 1),
    ("getAllowTvmSolidity059", 1),
    ("getAllowTvmIstanbul", 1),
    ("getAllowShieldedTRC20Transaction", 1),
    ("getForbidTransferToContract", 0),
    ("getAdaptiveResourceLimitTargetRatio", 10),
    ("getAdaptiveResourceLimitMultiplier", 1_000),
    ("getChangeDelegation", 1),
    ("getWitness127PayPerBlock", 128_000_000),
    ("getAllowMarketTransaction", 0),
    ("getMarketSellFee", 0),
    ("getMarketCancelFee", 0),
    ("getAllowPBFT", 0),
    ("getAllowTransactionFeePool", 0),
    ("getMaxFeeLimit", 15_000_000_000),
    ("getAllowOptimizeBlackHole", 1),
    ("getAllowNewResourceModel", 0),
    ("getAllowTvmFreeze", 0),
    ("getAllowTvmVote", 1),
    ("getAllowTvmLondon", 1),
    ("getAllowTvmCompatibleEvm", 0),
    ("getAllowAccountAssetOptimization", 0),
    ("getFreeNetLimit", 600),
    ("getTotalNetLimit", 43_200_000_000),
    ("getAllowHigherLimitForMaxCpuTimeOfOneTx", 1),
    ("getAllowAssetOptimization", 1),
    ("getAllowNewReward", 1),
    ("getMemoFee", 1_000_000),
    ("getAllowDelegateOptimization", 1),
    ("getUnfreezeDelayDays", 14),
    ("getAllowOptimizedReturnValueOfChainId", 1),
    ("getAllowDynamicEnergy", 1),
    ("getDynamicEnergyThreshold", 5_000_000_000),
    ("getDynamicEnergyIncreaseFactor", 2_000),
    ("getDynamicEnergyMaxFactor", 34_000),
    ("getAllowTvmShangHai", 1),
    ("getAllowCancelAllUnfreezeV2", 1),
    ("getMaxDelegateLockPeriod", 864_000),
    ("getAllowOldRewardOpt", 1),
    ("getAllowEnergyAdjustment", 1),
    ("getMaxCreateAccountTxSize", 1_000),
    ("getAllowStrictMath", 1),
    ("getConsensusLogicOptimization", 1),
    ("getAllowTvmCancun", 1),
    ("getAllowTvmBlob", 1),
];

/// Accounts of the first block: the address, the name, and the balance in sun. The last one receives burnt coins; its
/// balance started at the lowest possible value.
pub(super) const FOUNDATION: &[(&str, &str, i64)] = &[
    ("TLLM21wteSPs4hKjbxgmH1L6poyMjeTbHm", "Zion", 99_000_000_000_000_000),
    ("TXmVpin5vq5gdZsciyyjdZgKRUju4st1wM", "Sun", 0),
    ("TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy", "Blackhole", i64::MIN),
];

/// The history of energy prices: Unix milliseconds and sun.
pub(super) const ENERGY_PRICES: &str = "0:100,1542607200000:20,1544724000000:10,1606240800000:40,1613044800000:140,\
    1635422400000:280,1669219200000:420,1726747200000:210,1756454400000:100";

/// The history of prices for a byte of bandwidth.
pub(super) const BANDWIDTH_PRICES: &str = "0:10,1606537500000:40,1614238080000:140,1626581880000:1000";

/// The operations that the active permission of an account allows.
pub(super) const OPERATIONS: &str = "7fff1fc0033ec30f000000000000000000000000000000000000000000000000";
