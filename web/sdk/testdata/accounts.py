"""Doubles of eth-account's LocalAccount, written from its documented interface, which make real signatures.

Their way from typed data to digest is their own: it reads the types that it is given, as the library does, and knows nothing
of flight records. The library has no sign_typed_data on a LocalAccount before 0.13.5; signatures are HexBytes throughout.
"""

import collections

import karatum_flight as k

SignedOld = collections.namedtuple("SignedMessage", "messageHash message_hash r s v signature")  # to 0.12
SignedNew = collections.namedtuple("SignedMessage", "message_hash r s v signature")  # from 0.13


class HexBytes(bytes):
    """bytes whose hex has a prefix, as up to version 0.3 of the hexbytes package."""

    def hex(self):
        return "0x" + super().hex()


class LocalAccount:
    """What every version has: address with a checksum, sign_message, key."""

    def __init__(self, key):
        self.key, self._secret = HexBytes(bytes.fromhex(key[2:])), key
        plain = k.address_of_key(key)[2:]
        case = k.keccak256(plain).hex()
        self.address = "0x" + "".join(c.upper() if int(case[i], 16) > 7 else c for i, c in enumerate(plain))

    def _sign(self, digest):
        signature = bytes.fromhex(k.sign_digest(self._secret, digest)[2:])
        r, s, v = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big"), signature[64]
        return self.signed(digest, r, s, v, HexBytes(signature))

    @staticmethod
    def signed(digest, r, s, v, signature):
        return SignedOld(HexBytes(digest), HexBytes(digest), r, s, v, signature)

    def sign_message(self, signable_message):
        if len(signable_message.version) != 1:
            raise ValueError("only one-byte versions")
        return self._sign(k.keccak256(b"\x19" + signable_message.version + signable_message.header + signable_message.body))


class NewerAccount(LocalAccount):
    """From 0.13.5 on: sign_typed_data too, and no messageHash."""

    @staticmethod
    def signed(digest, r, s, v, signature):
        return SignedNew(HexBytes(digest), r, s, v, signature)

    def sign_typed_data(self, domain_data=None, message_types=None, message_data=None, full_message=None):
        if full_message is not None:
            raise ValueError("three arguments are expected here")
        if "EIP712Domain" in message_types:
            raise ValueError("the domain's type is not given")
        (primary,) = message_types
        kinds = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address", "salt": "bytes32"}
        domain = [{"name": n, "type": t} for n, t in kinds.items() if n in domain_data]
        parts = hash_struct("EIP712Domain", domain, domain_data), hash_struct(primary, message_types[primary], message_data)
        return self._sign(k.keccak256(b"\x19\x01" + parts[0] + parts[1]))


class ServiceAccount(NewerAccount):
    """A wallet service's, which signs texts and typed data and no digest: a message of version 1 is no text to it."""

    def sign_message(self, signable_message):
        if signable_message.version != b"E":
            raise ValueError("a text is expected")
        return super().sign_message(signable_message)


class LyingAccount(LocalAccount):
    """Signs something else."""

    def sign_message(self, signable_message):
        return self._sign(b"\1" * 32)


def hash_struct(name, fields, values):
    kind = f"{name}({','.join(f['type'] + ' ' + f['name'] for f in fields)})"
    return k.keccak256(k.keccak256(kind), *(word(f["type"], values[f["name"]]) for f in fields))


def word(kind, value):
    if kind == "string":
        if not isinstance(value, str):
            raise ValueError("a string is expected")
        return k.keccak256(value)
    if kind == "address":
        if not (isinstance(value, str) and len(value) == 42):
            raise ValueError("an address is expected")
        return bytes(12) + bytes.fromhex(value[2:])
    if kind == "bytes32":
        if not (isinstance(value, bytes) and len(value) == 32):
            raise ValueError("32 bytes are expected")
        return value
    if not (kind.startswith("uint") and type(value) is int and 0 <= value < 2 ** int(kind[4:])):
        raise ValueError(f"{kind}: {value!r}")
    return value.to_bytes(32, "big")


KINDS = {"0.8": LocalAccount, "0.13.5": NewerAccount, "service": ServiceAccount, "lying": LyingAccount}
