// What ran where and when: a bar for every attempt, a row for every slot.
import { useMemo } from 'preact/hooks'
import type { Experiment, Timeline } from './api'
import { axis, Chart, tip, tooltip, zooms, type Clicked, type Option } from './chart'
import { clock, span } from './format'
import { Card, word } from './parts'
import { go } from './router'
import { colour, ofState } from './theme'

interface Bar { row: number; from: number; to: number; i: number; open: boolean }

export function Slots({ e, timeline, dark }: { e: Experiment; timeline: Timeline; dark: boolean }) {
  const { bars, rows } = useMemo(() => placed(timeline), [timeline])
  const option = useMemo(() => draw(timeline, bars, rows), [bars, rows, dark])
  if (!bars.length) return null
  return <Card title="Slots" wide more={<small class="faint">{bars.length} attempts on {rows.length} slots</small>}>
    <Chart option={option} height={Math.min(520, 64 + rows.length * 20)} dark={dark} label={`when each of ${bars.length} attempts ran, on ${rows.length} slots`}
      onClick={(what: Clicked) => { const bar = what.data as { value: number[] }; go(`/e/${e.id}/t/${timeline.sequence[bar.value[3]]}`) }} />
  </Card>
}

/** placed puts each attempt into the first row of its host that is free by then. */
function placed(t: Timeline): { bars: Bar[]; rows: string[] } {
  const now = Date.now()
  const order = t.sequence.map((_, i) => i).filter(i => t.start[i] || t.submit[i]).sort((a, b) => (t.start[a] || t.submit[a]) - (t.start[b] || t.submit[b]))
  const rows: { place: string; until: number }[] = []
  const bars = order.map((i): Bar => {
    const from = t.start[i] || t.submit[i], open = t.outcome[i] === '' && !t.end[i]
    const to = Math.max(from + 1, t.end[i] || (open ? now : from + 1))
    const place = t.host[i] || t.platform[i]
    let row = rows.findIndex(r => r.place === place && r.until <= from + 1)
    if (row < 0) row = rows.push({ place, until: 0 }) - 1
    rows[row].until = to
    return { row, from, to, i, open }
  })
  // Rows of one host stand together.
  const sorted = rows.map((r, row) => ({ ...r, row })).sort((a, b) => a.place.localeCompare(b.place) || a.row - b.row)
  const to = new Map(sorted.map((r, place) => [r.row, place]))
  return { bars: bars.map(b => ({ ...b, row: to.get(b.row)! })), rows: sorted.map((r, i) => sorted[i - 1]?.place === r.place ? '' : r.place) }
}

interface API { value(i: number): number; coord(at: [number, number]): [number, number]; size(of: [number, number]): [number, number] }

function draw(t: Timeline, bars: Bar[], rows: string[]): Option {
  const colourOf = (b: Bar) => ofState(b.open ? 'RUNNING' : t.outcome[b.i] === 'fault' ? 'SYS_CANCELED' : t.outcome[b.i] === 'interrupted' ? 'USER_CANCELED' : t.state[b.i])
  return {
    grid: { left: 8, right: 14, top: 6, bottom: 36, containLabel: true },
    xAxis: [axis({ type: 'time', splitLine: { show: true, lineStyle: { color: colour('line'), opacity: 0.5 } } })],
    yAxis: [axis({ type: 'category', data: rows.map((name, i) => `${i}\n${name}`), inverse: true, splitLine: { show: false },
      axisLabel: { color: colour('faint'), fontSize: 11, interval: 0, formatter: (v: string) => v.slice(v.indexOf('\n') + 1) } })],
    dataZoom: zooms(),
    tooltip: tooltip((what: { data: { value: number[] } }) => {
      const [, from, to, i] = what.data.value
      return tip([`trial ${t.sequence[i]}, attempt ${t.attempt[i]}`, word(t.outcome[i] === '' ? 'RUNNING' : t.outcome[i] === 'ended' ? t.state[i] : t.outcome[i]),
        `${clock(from)}, for ${span((to - from) / 1000)}`, t.host[i] || t.platform[i], t.reason[i] || undefined])
    }),
    series: [{
      type: 'custom', progressive: 1000, cursor: 'pointer',
      data: bars.map(b => ({ value: [b.row, b.from, b.to, b.i], itemStyle: { color: colourOf(b) } })),
      encode: { x: [1, 2], y: 0 },
      renderItem: (_: unknown, api: API & { visual(name: string): string }) => {
        const start = api.coord([api.value(1), api.value(0)]), end = api.coord([api.value(2), api.value(0)])
        const height = Math.max(3, api.size([0, 1])[1] * 0.72)
        return { type: 'rect', shape: { x: start[0], y: start[1] - height / 2, width: Math.max(1.5, end[0] - start[0] - 0.5), height, r: Math.min(3, height / 4) }, style: { fill: api.visual('color') } }
      },
      clip: true,
    }],
  }
}
