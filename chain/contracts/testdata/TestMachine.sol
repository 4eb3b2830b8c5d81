// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// What a replay must get right beyond tokens, for tests only: every kind of
/// call, creation and failure, and everything that a block tells its code.
contract TestMachine {
    mapping(uint256 key => uint256) public slots;
    uint256 public counter;
    uint256 transient scratch;

    event Nothing() anonymous;
    event Step(uint256 indexed a, address indexed b, bytes32 indexed c, bytes data);
    event Environment(bytes32[] words);

    error Refused(uint256 code, string why);

    receive() external payable {
        counter += msg.value;
    }

    /// Adds to a slot and says what was there: order within a block shows.
    function bump(uint256 key, uint256 by) external payable returns (uint256 now_) {
        emit Step(key, msg.sender, bytes32(slots[key]), abi.encode(counter, by));
        emit Nothing();
        counter++;
        now_ = slots[key] += by;
    }

    function clear(uint256 from, uint256 to) external {
        for (uint256 i = from; i < to; i++) delete slots[i];
    }

    function refuse(uint256 how) external {
        counter++;
        if (how == 0) revert("no reason is good enough");
        if (how == 1) revert Refused(how, "custom");
        if (how == 2) assert(false);
        if (how == 3) { assembly { invalid() } }
        if (how == 4) while (true) counter++;
        revert();
    }

    /// Makes a child, which may end itself at once or in a later call.
    function create(bytes32 salt, bool end) external payable returns (Child child) {
        child = salt == 0 ? new Child{value: msg.value}(counter) : new Child{value: msg.value, salt: salt}(counter);
        counter++;
        emit Step(child.seed(), address(child), salt, address(child).code);
        if (end) child.end(payable(msg.sender));
    }

    function endChild(Child child, address payable heir) external {
        child.end(heir);
        emit Step(address(child).code.length, heir, address(child).codehash, "");
    }

    /// Calls another contract in one of three ways; its failure is only told.
    function through(address to, uint256 kind, bytes calldata data) external payable returns (bool ok) {
        bytes memory out;
        if (kind == 0) (ok, out) = to.call{value: msg.value}(data);
        if (kind == 1) (ok, out) = to.delegatecall(data);
        if (kind == 2) (ok, out) = to.staticcall(data);
        emit Step(kind, to, bytes32(uint256(ok ? 1 : 0)), out);
    }

    /// A transient slot is empty at the start of each transaction.
    function remember(uint256 v) external returns (uint256 was) {
        was = scratch;
        scratch = v;
        if (v > 1) was += this.remember(v - 1);
        emit Step(was, address(this), 0, "");
    }

    function environment(uint256 back) external {
        bytes32[] memory w = new bytes32[](14);
        w[0] = bytes32(block.basefee);
        w[1] = bytes32(block.prevrandao);
        w[2] = bytes32(block.timestamp);
        w[3] = bytes32(block.number);
        w[4] = bytes32(uint256(uint160(address(block.coinbase))));
        w[5] = bytes32(block.gaslimit);
        w[6] = bytes32(block.chainid);
        w[7] = blockhash(block.number - back);
        w[8] = bytes32(block.blobbasefee);
        w[9] = blobhash(0);
        w[10] = bytes32(tx.gasprice);
        w[11] = bytes32(tx.origin.balance);
        w[12] = bytes32(block.coinbase.balance);
        w[13] = bytes32(gasleft());
        emit Environment(w);
    }
}

contract Child {
    uint256 public seed;

    constructor(uint256 s) payable {
        seed = s;
    }

    function end(address payable heir) external {
        selfdestruct(heir);
    }
}
