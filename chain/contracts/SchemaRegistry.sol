// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {SchemaRecord} from "./Common.sol";

/// Schemas by UID, compatible with the registry of Ethereum Attestation Service
/// 1.4 except in one point: a schema with a resolver contract is refused with
/// ResolverUnsupported, because this EAS would never call it, and accepting the
/// schema would promise a check that does not happen.
contract SchemaRegistry {
    event Registered(bytes32 indexed uid, address indexed registerer, SchemaRecord schema);

    error AlreadyExists();
    error ResolverUnsupported(address resolver);

    mapping(bytes32 uid => SchemaRecord) private _schemas;

    function version() external pure returns (string memory) {
        return "1.4.0";
    }

    /// The UID is keccak256(schema ++ resolver ++ revocable), packed.
    function register(string calldata schema, address resolver, bool revocable) external returns (bytes32 uid) {
        if (resolver != address(0)) revert ResolverUnsupported(resolver);
        uid = keccak256(abi.encodePacked(schema, resolver, revocable));
        if (_schemas[uid].uid != 0) revert AlreadyExists();

        SchemaRecord memory record = SchemaRecord(uid, resolver, revocable, schema);
        _schemas[uid] = record;
        emit Registered(uid, msg.sender, record);
    }

    /// An unknown UID gives a record of zeros.
    function getSchema(bytes32 uid) external view returns (SchemaRecord memory) {
        return _schemas[uid];
    }
}
