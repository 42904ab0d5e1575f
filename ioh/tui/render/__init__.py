"""Draws the screen; each module has the name of what it draws.

    header        ioh  db01  ● LIVE 1s  15:10:24  cpu 34%  iowait 4%
    timeline      15:09:24 ───────────▼─────!───────────────────────
    verdict       ! NFS latency: the network has 82.7 of 91.0 ms
                    tc -s qdisc show dev eth0
                ── READ 4.10 ms × 150/s  1M direct  158 MB/s ───
    staircase   1 app    █                    0.04    1%
                5 device  ██████████████████  4.06   99%
                ╭ 1 app ─ R 158 4.10 ms ──╮╭ 5 block ─ R 160 ──╮
    overview    │ size × latency, trends  ││                   │   box, box_ops, box_db
                ╰─────────────────────────╯╰───────────────────╯   fan_out, in the border
    who         ── WHO  app: processes  files  mounts  block ──
    footer        1-6 zoom  f findings  ? help  q quit

``overview`` puts the middle together; on a narrow screen trends take the place of boxes.  After a
layer's number, ``zoom`` takes its place: the layer's ops (op_table, with op_columns), then the
chosen op's histogram, heat map or graph, then its breakdown: ``who`` chooses it, ``breakdown``
draws it.  ``findings``, ``help``, ``compare`` and the list of commands are text_screens.
``screen`` puts all together.  All draw ``ioh.terminal.line``s.
"""
