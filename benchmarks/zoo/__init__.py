"""The attack zoo: adversaries that make real files, leaves and leases, and a validator's real checks that judge them.

    stage       a step of a pool as a validator meets it: leaves in, judgements out
    material    recordings, altered policies and completions, kept in a work folder
    decoding    an attacker's own engine, with every part of it open to change
    forged      attacks that edit an honest recording; each must be found every time
    generated   attacks that generate by something else than the rule; found at a rate
    steered     attacks by someone who has read the checks and stays below their limits: tokens
    camouflaged the same for proofs
    tally       from judgements to figures
    curves      detection by audited tokens

Nothing here is known to the product, and nothing uses what an outsider could not write.
"""
