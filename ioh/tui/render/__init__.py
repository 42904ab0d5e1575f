"""Draws the screen; each module has the name of what it draws.

    header        ioh  db01  ● LIVE 1s  15:10:24  cpu 34%  iowait 4%
    timeline      15:09:24 ───────────▼─────!───────────────────────
    verdict       ! NFS latency: the network has 82.7 of 91.0 ms
                    tc -s qdisc show dev eth0
    waterfall     READ  0.9 ms  network                   device
                ╭─ 1 app ─── R 158 MB/s 4.10 ms ─────────────────╮
    overview    │ trends          histogram        breakdown     │   box, box_ops, box_db
                ╰────────────────────────────────────────── top ─╯   fan_out, in the border
                  2 nfs client  R   0.94  14.3  91.0 ms       layer_lines, if no boxes fit
    footer        1-6 zoom  f findings  ? help  q quit

After a layer's number, ``zoom`` takes the place of ``overview``: the layer's ops (op_table, with
op_columns), then the chosen op's histogram, heat map or graph, then its breakdown: ``who`` chooses
it, ``breakdown`` draws it.  ``findings``, ``help``, ``compare`` and the list of commands are
text_screens.  ``screen`` puts all together, of ``line``s.
"""
