// Several experiments beside each other: how fast each got how good.
import { useEffect, useMemo } from 'preact/hooks'
import type { Comparison, Contender } from './api'
import { axis, Chart, tip, tooltip, zooms, type Option } from './chart'
import { number, span } from './format'
import { useLive, useResource } from './live'
import type { Shell } from './main'
import { Card, Choice, Pill, useKept } from './parts'
import { Go, usePath } from './router'
import { colour } from './theme'

type By = 'result' | 'seconds' | 'hours'
type Scale = 'linear' | 'log'

/** comparing is the address of the page that compares experiments. */
export const comparing = (ids: string[]) => '/compare?' + ids.map(id => 'experiment=' + encodeURIComponent(id)).join('&')

/** lineColour tells experiments apart, on the chart and in the table below it. */
const lineColour = (i: number) => colour(`line-${i % 8}`)

export function ComparePage({ shell }: { shell: Shell }) {
  const live = useLive('/changes')
  const ids = usePath().query.getAll('experiment')
  const { data, error } = useResource<Comparison>(ids.length ? comparing(ids) : null, live.version)
  useEffect(() => shell.tell({ link: live.link, title: `${ids.length} experiments` }), [live.link, ids.length])
  return <>
    <div class="head"><div><h1>{ids.length} experiments</h1><small><Go to="/">Experiments</Go> / compare</small></div></div>
    {ids.length === 0 && <p>Choose some on <Go to="/">the list</Go>.</p>}
    {error && <p class="notice">{error}</p>}
    {data && <Contest all={data.experiments} dark={shell.dark} />}
  </>
}

function Contest({ all, dark }: { all: Contender[]; dark: boolean }) {
  const [by, setBy] = useKept<By>('compare-by', 'result')
  const [scale, setScale] = useKept<Scale>('best-scale', 'linear')
  const positive = all.every(e => e.course.best.every(v => v > 0))
  const log = scale === 'log' && positive
  const option = useMemo(() => draw(all, by, log), [all, by, log, dark])
  const mixed = new Set(all.map(e => e.minimize)).size > 1
  return <div class="grid">
    <Card title="Best so far" wide more={<>
      <Choice<By> label="Along" value={by} onChange={setBy} of={[['result', 'by trial'], ['seconds', 'by time'], ['hours', all.some(e => e.gpus) ? 'by GPU hour' : 'by hour of work']]} />
      <Choice<Scale> label="Scale" value={log ? 'log' : 'linear'} onChange={s => positive && setScale(s)} of={[['linear', 'linear'], ['log', positive ? 'log' : 'log (needs > 0)']]} />
    </>}>
      {mixed && <p class="why">Some of them want more, some less: their numbers may not mean the same.</p>}
      <Chart option={option} height={420} dark={dark} label={`The best so far of ${all.map(e => `${e.name || e.id}: ${number(e.best?.metric)}`).join(', ')}`} />
    </Card>
    <Card title="What came of them" wide>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="What came of them, as a table"><table>
        <thead><tr><th>Experiment</th><th>State</th><th>Tuner</th><th>Best</th><th>By trial</th><th>Results</th><th>Until its best</th></tr></thead>
        <tbody>{all.map((e, i) => <tr key={e.id}>
          <td><i class="swatch" style={{ background: lineColour(i) }} aria-hidden="true" /><Go to={'/e/' + e.id}>{e.name || e.id}</Go> <small><code>{e.id}</code></small></td>
          <td><Pill state={e.status} /></td><td>{e.tuner || '–'}</td><td><b>{number(e.best?.metric)}</b> <small>{e.minimize ? 'less is better' : ''}</small></td>
          <td>{e.best ? <Go to={`/e/${e.id}/t/${e.best.sequence}`}>{e.best.sequence}</Go> : '–'}</td><td>{e.results}</td><td>{untilBest(e)}</td>
        </tr>)}</tbody>
      </table></div>
    </Card>
  </div>
}

function untilBest(e: Contender): string {
  const at = e.course.best.indexOf(e.course.best.at(-1) ?? NaN)
  return at < 0 ? '–' : `${e.course.result[at]} ${e.course.result[at] === 1 ? 'result' : 'results'}, ${span(e.course.seconds[at])}`
}

function draw(all: Contender[], by: By, log: boolean): Option {
  const along = { result: (x: number) => `after ${x} results`, seconds: (x: number) => `after ${span(x)}`, hours: (x: number) => `after ${number(x)} h` }[by]
  return {
    grid: { left: 8, right: 18, top: 18, bottom: 34, containLabel: true },
    xAxis: [axis({ type: 'value', scale: true, minInterval: by === 'result' ? 1 : undefined, splitLine: { show: false },
      axisLabel: { color: colour('faint'), hideOverlap: true, fontSize: 11, formatter: (x: number) => by === 'seconds' ? span(x) : by === 'hours' ? `${number(x)} h` : String(x) } })],
    yAxis: [axis({ type: log ? 'log' : 'value', scale: true })],
    dataZoom: zooms(),
    tooltip: tooltip((what: { seriesName: string; data: [number, number] }) => tip([what.seriesName, `${number(what.data[1])} ${along(what.data[0])}`])),
    series: all.map((e, i) => ({
      id: e.id, name: `${e.name || e.id} (${e.id})`, type: 'line', step: 'end', symbol: 'circle', symbolSize: 5,
      data: e.course[by].map((x, n) => [x, e.course.best[n]]), lineStyle: { color: lineColour(i), width: 2.4 }, itemStyle: { color: lineColour(i) },
    })),
  }
}
