// One trial: what it was given, what came of it, and what it said.
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { Attempt, WholeTrial } from './api'
import { axis, Chart, tip, tooltip, type Option } from './chart'
import { cell, flatten, number, short, took } from './format'
import { smoothed } from './curves'
import { useLive, useResource } from './live'
import type { Shell } from './main'
import { Card, Copy, Pill, Tile, useKept, useNow, word } from './parts'
import { TrialActs } from './acts'
import { Output } from './output'
import { Pairs } from './experiment'
import { Go } from './router'
import { still } from './still'
import { colour } from './theme'

export function TrialPage({ experiment, trial, shell }: { experiment: string; trial: string; shell: Shell }) {
  const live = useLive(`/experiments/${experiment}/events?after=-1`)
  const { data: t, error } = useResource<WholeTrial>(`/experiments/${experiment}/trials/${trial}`, live.version)
  const now = useNow()
  useEffect(() => shell.tell({ link: live.link, title: t ? `trial ${t.sequence}: ${word(t.state)}${t.metric !== null ? ' ' + number(t.metric) : ''}` : `trial ${trial}` }), [live.link, t])
  if (!t) return error ? <div class="empty"><h1>{error}</h1><p><Go to={'/e/' + experiment}>The experiment</Go></p></div> : <p class="faint">…</p>
  const at = (n: number) => `/e/${experiment}/t/${n}`
  return <>
    <div class="head">
      <div><h1>Trial {t.sequence}</h1><small><Go to="/">Experiments</Go> / <Go to={'/e/' + experiment}><code>{experiment}</code></Go> / <Go to={`/e/${experiment}/trials`}>trials</Go> / <code>{t.id}</code></small></div>
      <Pill state={t.state} />
      <span class="grow" />
      <TrialActs t={t} />
      {t.sequence > 0 && <Go class="button" to={at(t.sequence - 1)} aria-label="the trial before">←</Go>}
      <Go class="button" to={at(t.sequence + 1)} aria-label="the trial after">→</Go>
    </div>
    {t.reason.text && <p class="why block">{t.reason.text}</p>}
    <dl class="tiles">
      <Tile name={t.metric !== null ? 'Metric' : 'So far'} note={t.metric === null && t.intermediate ? `step ${t.intermediate.step}` : undefined}><span class="big">{number(t.metric ?? t.intermediate?.metric)}</span></Tile>
      <Tile name="Took" note={t.start ? new Date(t.start).toLocaleString() : 'not begun'}>{took(t.start, t.end, now)}</Tile>
      <Tile name="Attempts">{t.attempts}</Tile>
      <Tile name="Where" note={t.url && <a href={t.url} target="_blank" rel="noreferrer">its page there</a>}>{t.host || t.attemptList.at(-1)?.platform || '–'}</Tile>
    </dl>
    <div class="grid">
      <CurveCard t={t} dark={shell.dark} />
      <Card title="Parameters" more={<Copy text={JSON.stringify(t.parameters, null, 2)}>Copy</Copy>}>
        <Pairs of={flatten(t.parameters).map(([name, value]) => [short(name), cell(value)])} />
        {t.source === 'customized' && <p class="faint">Added by hand.</p>}
        {t.final?.trimStart().startsWith('{') && <Result text={t.final} />}
      </Card>
      {!still && <Output t={t} />}
      <Attempts t={t} now={now} />
    </div>
  </>
}

function Result({ text }: { text: string }) {
  try {
    return <><h3>Result</h3><Pairs of={flatten(JSON.parse(text)).map(([name, value]) => [name, cell(value)])} /></>
  } catch { // Python's NaN
    return <><h3>Result</h3><pre class="file">{text}</pre></>
  }
}

function CurveCard({ t, dark }: { t: WholeTrial; dark: boolean }) {
  const [smooth, setSmooth] = useKept('curves-smooth', 0)
  const points = t.intermediates.filter(m => m.metric !== null)
  const last = points.at(-1)
  const option = useMemo((): Option => {
    const values = smoothed(points.map(p => p.metric!), smooth)
    return {
      grid: { left: 8, right: 16, top: 16, bottom: 8, containLabel: true },
      xAxis: [axis({ type: 'value', scale: true, minInterval: 1, splitLine: { show: false } })], yAxis: [axis({ type: 'value', scale: true })],
      tooltip: tooltip((what: { data: [number, number] }[]) => tip([`step ${what[0]?.data[0]}`, number(what[0]?.data[1])]), 'axis'),
      series: [{ type: 'line', data: points.map((p, i) => [p.step, values[i]]), symbol: points.length > 60 ? 'none' : 'circle', symbolSize: 5, lineStyle: { color: colour('accent'), width: 2 }, itemStyle: { color: colour('accent') }, areaStyle: { color: colour('glow') } }],
    }
  }, [points.length, last?.step, smooth, dark])
  return <Card title="Curve" more={<label class="slide">Smooth <input type="range" min="0" max="0.95" step="0.05" value={smooth} onInput={event => setSmooth(Number(event.currentTarget.value))} /></label>}>
    {points.length ? <Chart option={option} height={260} dark={dark} label={`${points.length} points, the last ${number(last?.metric)}`} /> : <p class="faint">It has reported nothing on the way.</p>}
    {t.reported > t.intermediates.length + 1 && <p class="faint">the newest {t.intermediates.length} of {t.reported}</p>}
  </Card>
}

function Attempts({ t, now }: { t: WholeTrial; now: number }) {
  const [all, set] = useState(false)
  const list = [...t.attemptList].reverse()
  if (!list.length) return null
  return <Card title="Attempts" wide more={list.length > 5 && <button type="button" class="quiet" onClick={() => set(!all)}>{all ? 'the newest' : `all ${list.length}`}</button>}>
    <div class="scroll-x"><table><thead><tr><th>Attempt</th><th>Where</th><th>Began</th><th>Took</th><th>How it ended</th><th>Files</th></tr></thead>
      <tbody>{(all ? list : list.slice(0, 5)).map(a => <tr key={a.attempt}>
        <td>{a.attempt}</td><td>{a.host ? `${a.platform} on ${a.host}` : a.platform} {a.url && <a href={a.url} target="_blank" rel="noreferrer">page</a>}</td>
        <td>{a.start ? new Date(a.start).toLocaleString() : '–'}</td><td>{took(a.start, a.end, now)}</td><td>{ended(a)}</td>
        <td>{a.directory && <Copy text={a.directory} label={`copy path ${a.directory}`}>copy path</Copy>}</td></tr>)}</tbody></table></div>
  </Card>
}

function ended(a: Attempt): string {
  const how = a.outcome || a.phase || 'being submitted'
  const exit = a.exit ? a.exit.signal ? `, ${a.exit.signal}` : `, exit code ${a.exit.code}` : ''
  return how + exit + (a.reason.text ? ': ' + a.reason.text : '')
}
