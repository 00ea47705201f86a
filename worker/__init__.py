"""The worker: generates rollouts with the leased policy and proves them."""
