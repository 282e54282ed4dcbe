// One experiment: how it stands, what came of it, and where.
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import type { Experiment, Results, Timeline } from './api'
import { cell, flatten, number, short, span } from './format'
import { useLive, useResource, type Live } from './live'
import type { Shell } from './main'
import { Card, Copy, Pill, Progress, Tile, useNow, word, Tags } from './parts'
import { Go } from './router'
import { still } from './still'
import { Analysis } from './analysis'
import { ExperimentActs } from './acts'
import { BestSoFar } from './best'
import { Parallel } from './parallel'
import { CurvesCard } from './curves'
import { Slots } from './slots'
import { TrialTable } from './table'

export function settled(e: Experiment): number {
  const t = e.trials
  return t.SUCCEEDED + t.FAILED + t.EARLY_STOPPED + t.USER_CANCELED + t.SYS_CANCELED
}

/** titleOf says in a tab how an experiment stands. */
export function titleOf(e: Experiment): string {
  const sign = e.paused && e.status === 'RUNNING' ? '❚❚' : { RUNNING: '●', STOPPING: '◌', STOPPED: '■', DONE: '✓', REMOVING: '◌' }[e.status]
  const far = e.limits.maxTrials ? `${settled(e)}/${e.limits.maxTrials}` : String(settled(e))
  return `${sign} ${far} ${e.name || e.id}`
}

const tabs: [string, string][] = [['overview', 'Overview'], ['analysis', 'Analysis'], ['curves', 'Curves'], ['trials', 'Trials'], ['setup', 'Setup']]

export function ExperimentPage({ id, tab, shell }: { id: string; tab: string; shell: Shell }) {
  const live = useLive(`/experiments/${id}/events?after=-1`)
  const { data: e, error } = useResource<Experiment>('/experiments/' + id, live.version)
  useEffect(() => shell.tell({ link: live.link, title: e ? titleOf(e) : id }), [live.link, e])
  if (!e) return error ? <div class="empty"><h1>{error}</h1><p><Go to="/">All experiments</Go></p></div> : <p class="faint">…</p>
  return <>
    <div class="head">
      <div><h1>{e.name || e.id}</h1><small><Go to="/">Experiments</Go> / <code>{e.id}</code> · {[...new Set(e.platforms.map(p => p.platform))].join(', ')}</small><Tags of={e.tags} /></div>
      <Pill state={e.status} paused={e.paused} />
      <span class="grow" />
      <ExperimentActs e={e} />
      {e.reason.text && <p class="why">{e.reason.text.split('\n')[0]}</p>}
    </div>
    <Progress trials={e.trials} of={e.limits.maxTrials ?? e.asked} />
    <div class="tabs" role="navigation" aria-label="Views of this experiment">
      {tabs.map(([name, text]) => <Go key={name} to={`/e/${id}${name === 'overview' ? '' : '/' + name}`} aria-current={tab === name ? 'page' : undefined}>{text}</Go>)}
    </div>
    {tab === 'overview' && <Overview e={e} live={live} dark={shell.dark} />}
    {tab === 'analysis' && <Analysis e={e} live={live} dark={shell.dark} />}
    {tab === 'curves' && <CurvesCard e={e} live={live} dark={shell.dark} />}
    {tab === 'trials' && <TrialTable e={e} version={live.version} />}
    {tab === 'setup' && <Setup e={e} />}
  </>
}

function Overview({ e, live, dark }: { e: Experiment; live: Live; dark: boolean }) {
  const results = useResource<Results>(`/experiments/${e.id}/results`, live.version).data
  const timeline = useResource<Timeline>(`/experiments/${e.id}/timeline`, live.version).data
  return <>
    <Tiles e={e} />
    <div class="grid">
      {results && <BestSoFar e={e} results={results} dark={dark} />}
      <BestTrial e={e} />
      {results && <Parallel e={e} results={results} dark={dark} />}
      {timeline && <Slots e={e} timeline={timeline} dark={dark} />}
    </div>
  </>
}

function Tiles({ e }: { e: Experiment }) {
  const now = useNow()
  const counts = (['RUNNING', 'WAITING', 'FAILED', 'EARLY_STOPPED'] as const).filter(s => e.trials[s]).map(s => `${e.trials[s]} ${word(s)}`)
  const wall = e.created ? ((e.ended && e.status !== 'RUNNING' ? Date.parse(e.ended) : now) - Date.parse(e.created)) / 1000 : 0
  return <dl class="tiles">
    <Tile name="Best" note={e.best && <>by trial <Go to={`/e/${e.id}/t/${e.best.sequence}`}>{e.best.sequence}</Go></>}><span class="big">{number(e.best?.metric)}</span></Tile>
    <Tile name="Trials" note={counts.join(', ') || 'ended'}>{settled(e)}{e.limits.maxTrials !== null && <small> of {e.limits.maxTrials}</small>}</Tile>
    <Tile name="At a time" note={<>tuner {e.tuner.name ?? e.tuner.className ?? e.tuner.command ?? '–'}</>}>{e.limits.concurrency}</Tile>
    <Tile name="Ran for" note={e.limits.maxDuration !== null ? `of ${span(e.limits.maxDuration)}` : `${span(wall)} since the start`}>{span(e.duration)}</Tile>
    <Tile name={e.status === 'RUNNING' ? 'Left, about' : 'Ended'} note={e.ended && e.status !== 'RUNNING' ? new Date(e.ended).toLocaleString() : undefined}>
      {e.remaining !== null ? span(e.remaining) : e.ended && e.status !== 'RUNNING' ? span((now - Date.parse(e.ended)) / 1000) + ' ago' : '–'}</Tile>
  </dl>
}

function BestTrial({ e }: { e: Experiment }) {
  if (!e.best) return <Card title="Best trial"><p class="faint">Its parameters will stand here once a trial has a result.</p></Card>
  const text = JSON.stringify(e.best.parameters, null, 2)
  return <Card title="Best trial" more={<Copy text={text}>Copy parameters</Copy>}>
    <p class="big">{number(e.best.metric)} <small>by <Go to={`/e/${e.id}/t/${e.best.sequence}`}>trial {e.best.sequence}</Go>{e.best.host && ` on ${e.best.host}`}</small></p>
    <Pairs of={flatten(e.best.parameters).map(([name, value]) => [short(name), cell(value)])} />
  </Card>
}

/** Pairs are names with what they mean. */
export function Pairs({ of }: { of: [string, ComponentChildren][] }) {
  return <dl class="pairs">{of.map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl>
}

function Setup({ e }: { e: Experiment }) {
  const space = Object.entries((e.searchSpace ?? {}) as Record<string, { _type?: string; _value?: unknown }>)
  const commands = [`starter show ${e.id}`, `starter trials ${e.id}`, `starter logs ${e.id} 0 --follow`, `starter export ${e.id} --format csv`,
    e.status === 'RUNNING' ? `starter stop ${e.id}` : `starter resume ${e.id}`]
  return <div class="grid">
    <Card title="Search space">
      <Pairs of={space.map(([name, s]) => [name, s?._type ? <><b>{s._type}</b> <code>{JSON.stringify(s._value)}</code></> : <code>{JSON.stringify(s)}</code>])} />
    </Card>
    <Card title="What runs">
      <Pairs of={[['tuner', <Algorithm of={e.tuner} />], ['assessor', e.assessor ? <Algorithm of={e.assessor} /> : '–'],
        ...e.platforms.flatMap((p): [string, ComponentChildren][] => [['on', p.platform], ['command', <code>{p.command}</code>], ['in', <code>{p.codeDirectory}</code>]])]} />
    </Card>
    <Card title="In a terminal">
      <ul class="commands">{commands.map(c => <li><code>{c}</code><Copy text={c} label={`copy ${c}`}>copy</Copy></li>)}</ul>
      {!still && <p><a href={`/api/v1/experiments/${e.id}/temporal`} target="_blank" rel="noreferrer">Its workflow in Temporal's Web UI</a> · <a href="/api/v1/openapi.json" target="_blank" rel="noreferrer">API</a></p>}
    </Card>
    <Card title="As it was accepted" more={<Copy text={JSON.stringify(e.config, null, 2)}>Copy</Copy>} wide>
      <pre class="file" tabIndex={0}>{JSON.stringify(e.config, null, 2)}</pre>
    </Card>
  </div>
}

function Algorithm({ of }: { of: Experiment['tuner'] }) {
  return <><b>{of.name ?? of.className ?? of.command ?? '–'}</b> {of.classArgs !== undefined && <code>{JSON.stringify(of.classArgs)}</code>}</>
}
