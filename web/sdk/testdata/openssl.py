"""Signs and verifies secp256k1 with the cryptography package (OpenSSL) and compares karatum_flight.py with it."""

import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import karatum_flight as k
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SCHEME = ec.ECDSA(utils.Prehashed(hashes.SHA256()))

rng = random.Random(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    secret = rng.choice([1, 2, ORDER - 1, rng.randrange(1, ORDER)])
    digest = rng.choice([bytes(32), b"\xff" * 32, ORDER.to_bytes(32, "big"), rng.getrandbits(256).to_bytes(32, "big")])
    key = ec.derive_private_key(secret, ec.SECP256K1())
    public = key.public_key().public_numbers()
    address = k.to_hex(k.keccak256(public.x.to_bytes(32, "big"), public.y.to_bytes(32, "big"))[12:])
    text = "0x%064x" % secret
    assert k.address_of_key(text) == address, (text, address)

    r, s = utils.decode_dss_signature(key.sign(digest, SCHEME))
    raw = r.to_bytes(32, "big") + min(s, ORDER - s).to_bytes(32, "big")
    assert address in [k.recover(digest, raw + bytes([v])) for v in (27, 28)], (text, digest.hex(), raw.hex())

    signature = k.unhex(k.sign_digest(text, digest))
    assert k.recover(digest, signature) == address, (text, digest.hex(), signature.hex())
    der = utils.encode_dss_signature(int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big"))
    key.public_key().verify(der, digest, SCHEME)
print("agree")
