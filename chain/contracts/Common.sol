// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

// Types shared by SchemaRegistry and EAS. Names, order and widths of the fields
// are the ABI of Ethereum Attestation Service 1.4: changing one changes every
// selector, event topic and UID.

error AccessDenied();
error NotFound();

struct SchemaRecord {
    bytes32 uid;
    address resolver; // always zero here, see SchemaRegistry
    bool revocable;
    string schema;
}

struct Attestation {
    bytes32 uid;
    bytes32 schema;
    uint64 time; // Unix seconds, the block's timestamp
    uint64 expirationTime; // Unix seconds, 0 = never
    uint64 revocationTime; // Unix seconds, 0 = not revoked
    bytes32 refUID;
    address recipient;
    address attester;
    bool revocable;
    bytes data;
}

struct AttestationRequestData {
    address recipient;
    uint64 expirationTime;
    bool revocable;
    bytes32 refUID;
    bytes data;
    uint256 value; // wei for the resolver; must be 0 without one
}

struct AttestationRequest {
    bytes32 schema;
    AttestationRequestData data;
}

struct RevocationRequestData {
    bytes32 uid;
    uint256 value;
}

struct RevocationRequest {
    bytes32 schema;
    RevocationRequestData data;
}
