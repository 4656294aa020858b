"""web3.py 8 over its WebSocketProvider, with the key in a header."""

import asyncio

from web3 import AsyncWeb3, WebSocketProvider

from check import run


async def speak(chain, check):
    options = {"additional_headers": {"apikey": chain["key"]}}
    async with AsyncWeb3(WebSocketProvider(chain["ws"], websocket_kwargs=options)) as web3:
        with check("the chain id and a block"):
            assert await web3.eth.chain_id == chain["id"]
            newest = await web3.provider.make_request("eth_getBlockByNumber", ["latest", False])
            assert newest["result"]["hash"]

        with check("headers are told one after another"):
            identifier = await web3.eth.subscribe("newHeads")
            numbers = []
            async for message in web3.socket.process_subscriptions():
                assert message["subscription"] == identifier, message
                number = message["result"]["number"]
                numbers.append(number if isinstance(number, int) else int(number, 16))
                if len(numbers) == 3:
                    break
            assert await web3.eth.unsubscribe(identifier)
            assert numbers == list(range(numbers[0], numbers[0] + 3)), numbers
            check.note(numbers)

        if not chain["real"]:
            with check("logs of the token are told"):
                await web3.eth.subscribe("logs", {"address": web3.to_checksum_address(chain["token"])})
                async for message in web3.socket.process_subscriptions():
                    assert message["result"]["address"].lower() == chain["token"], message
                    break


run("web3", lambda chain, check: asyncio.run(speak(chain, check)))
