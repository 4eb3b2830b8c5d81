// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// The part of ERC-721 that shows in receipts, for tests only: anyone mints, and
/// an ERC-721 Transfer has the topic of an ERC-20 one with the id as a fourth topic.
contract TestNFT {
    mapping(uint256 id => address) public ownerOf;
    mapping(address owner => uint256) public balanceOf;

    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner);
    error ERC721InvalidReceiver(address receiver);
    error ERC721InvalidSender(address sender);

    function mint(address to, uint256 id) external {
        if (to == address(0)) revert ERC721InvalidReceiver(to);
        if (ownerOf[id] != address(0)) revert ERC721InvalidSender(address(0));
        ownerOf[id] = to;
        balanceOf[to]++;
        emit Transfer(address(0), to, id);
    }

    function transferFrom(address from, address to, uint256 id) external {
        if (to == address(0)) revert ERC721InvalidReceiver(to);
        if (from != msg.sender || ownerOf[id] != from) revert ERC721IncorrectOwner(from, id, ownerOf[id]);
        ownerOf[id] = to;
        balanceOf[from]--;
        balanceOf[to]++;
        emit Transfer(from, to, id);
    }
}
