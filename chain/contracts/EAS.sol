// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import "./Common.sol";
import {SchemaRegistry} from "./SchemaRegistry.sol";

/// Attestations, compatible with Ethereum Attestation Service 1.4 in the calls
/// that it has: same selectors, UIDs, events, custom errors, and the same order
/// of checks, so that a bad request is refused for the same reason. Resolvers,
/// delegated and multi requests are left out.
contract EAS {
    event Attested(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID);
    event Revoked(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID);
    event Timestamped(bytes32 indexed data, uint64 indexed timestamp);

    error AlreadyRevoked();
    error AlreadyTimestamped();
    error FailedCall();
    error InvalidExpirationTime();
    error InvalidRegistry();
    error InvalidSchema();
    error Irrevocable();
    error NotPayable();

    SchemaRegistry private immutable _registry;
    mapping(bytes32 uid => Attestation) private _attestations;
    mapping(bytes32 data => uint64) private _timestamps;

    constructor(SchemaRegistry registry) {
        if (address(registry) == address(0)) revert InvalidRegistry();
        _registry = registry;
    }

    function version() external pure returns (string memory) {
        return "1.4.0";
    }

    function getName() external pure returns (string memory) {
        return "EAS";
    }

    function getSchemaRegistry() external view returns (SchemaRegistry) {
        return _registry;
    }

    function attest(AttestationRequest calldata request) external payable returns (bytes32 uid) {
        AttestationRequestData calldata data = request.data;
        SchemaRecord memory schema = _schema(request.schema);
        if (data.expirationTime != 0 && data.expirationTime <= block.timestamp) revert InvalidExpirationTime();
        if (data.revocable && !schema.revocable) revert Irrevocable();

        Attestation memory a = Attestation({
            uid: 0,
            schema: request.schema,
            time: uint64(block.timestamp),
            expirationTime: data.expirationTime,
            revocationTime: 0,
            refUID: data.refUID,
            recipient: data.recipient,
            attester: msg.sender,
            revocable: data.revocable,
            data: data.data
        });
        uid = _freeUID(a);
        a.uid = uid;
        _attestations[uid] = a;
        if (data.refUID != 0 && !isAttestationValid(data.refUID)) revert NotFound();
        emit Attested(data.recipient, msg.sender, uid, request.schema);
        _settle(data.value);
    }

    function revoke(RevocationRequest calldata request) external payable {
        _schema(request.schema);
        Attestation storage a = _attestations[request.data.uid];
        if (a.uid == 0) revert NotFound();
        if (a.schema != request.schema) revert InvalidSchema();
        if (a.attester != msg.sender) revert AccessDenied();
        if (!a.revocable) revert Irrevocable();
        if (a.revocationTime != 0) revert AlreadyRevoked();
        a.revocationTime = uint64(block.timestamp);
        emit Revoked(a.recipient, msg.sender, a.uid, request.schema);
        _settle(request.data.value);
    }

    function timestamp(bytes32 data) external returns (uint64 time) {
        if (_timestamps[data] != 0) revert AlreadyTimestamped();
        time = uint64(block.timestamp);
        _timestamps[data] = time;
        emit Timestamped(data, time);
    }

    function getTimestamp(bytes32 data) external view returns (uint64) {
        return _timestamps[data];
    }

    function getAttestation(bytes32 uid) external view returns (Attestation memory) {
        return _attestations[uid];
    }

    /// Valid means that it exists; a revoked or expired attestation exists too.
    function isAttestationValid(bytes32 uid) public view returns (bool) {
        return _attestations[uid].uid != 0;
    }

    function _schema(bytes32 uid) private view returns (SchemaRecord memory schema) {
        schema = _registry.getSchema(uid);
        if (schema.uid == 0) revert InvalidSchema();
    }

    /// The same request twice in one second would have the same UID: bump counts
    /// up until the UID is free.
    function _freeUID(Attestation memory a) private view returns (bytes32 uid) {
        for (uint32 bump = 0; ; bump++) {
            uid = keccak256(
                abi.encodePacked(
                    a.schema,
                    a.recipient,
                    a.attester,
                    a.time,
                    a.expirationTime,
                    a.revocable,
                    a.refUID,
                    a.data,
                    bump
                )
            );
            if (_attestations[uid].uid == 0) return uid;
        }
    }

    /// Without a resolver nobody can take a payment: a named value is refused,
    /// ether sent along goes back to the sender.
    function _settle(uint256 value) private {
        if (value != 0) revert NotPayable();
        if (msg.value == 0) return;
        (bool ok, bytes memory reason) = msg.sender.call{value: msg.value}("");
        if (ok) return;
        if (reason.length == 0) revert FailedCall();
        assembly ("memory-safe") {
            revert(add(reason, 32), mload(reason))
        }
    }
}
