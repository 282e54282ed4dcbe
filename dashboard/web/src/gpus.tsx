// Who has which GPU, and who waits for one.
import { useEffect } from 'preact/hooks'
import type { GPUs } from './api'
import { useLive, useResource } from './live'
import type { Shell } from './main'
import { Card, useNow } from './parts'
import { Go } from './router'

const gibibytes = (bytes?: number) => bytes === undefined ? '–' : (bytes / 2 ** 30).toFixed(1)

export function GPUsPage({ shell }: { shell: Shell }) {
  const live = useLive('/changes')
  const turn = Math.floor(useNow(5000) / 5000)
  const { data, error } = useResource<GPUs>('/gpus', live.version + turn)
  useEffect(() => shell.tell({ link: live.link, title: 'GPUs' }), [live.link])
  return <>
    <div class="head"><h1>GPUs</h1></div>
    {error && <p class="notice">{error}</p>}
    <div class="grid">
      {data?.hosts?.map(host => <Card key={host.host} title={host.host} wide>
        {host.fault && <p class="why">{host.fault}</p>}
        {!host.fault && !host.inventory.gpus?.length && <p class="faint">No GPU: {host.inventory.none}</p>}
        {!!host.inventory.gpus?.length && <div class="scroll-x"><table><thead><tr><th>GPU</th><th>Name</th><th>Memory</th><th>Use</th><th>Who</th></tr></thead>
          <tbody>{host.inventory.gpus.map(g => <tr key={g.uuid}><td>{g.index}</td><td>{g.name}</td>
            <td>{gibibytes(g.used)} of {gibibytes(g.memory)} GiB</td>
            <td>{g.utilisation === undefined ? '–' : <><meter min="0" max="100" value={g.utilisation} aria-label="use" /> {g.utilisation} %</>}</td>
            <td>{g.failed ? `does not work: ${g.failed}` : [...(g.requested ? [g.requested] : []), ...(host.leases ?? []).filter(l => l.gpu === g.uuid).map(l => l.trial ? `trial ${l.trial} of ${l.experiment}` : l.user ?? 'somebody'),
              ...(g.processes ?? []).filter(p => !p.trial).map(p => `pid ${p.pid}${p.user ? ' of ' + p.user : ''}`)].join('; ') || 'free'}</td></tr>)}</tbody></table></div>}
      </Card>)}
      {!!data?.waiting.length && <Card title="Waiting for a GPU" wide><div class="scroll-x"><table><thead><tr><th>Experiment</th><th>Trial</th><th>GPUs</th><th>Why it waits</th></tr></thead>
        <tbody>{data.waiting.map(w => <tr key={w.experiment + w.trial}><td><Go to={'/e/' + w.experiment}><code>{w.experiment}</code></Go></td>
          <td><Go to={`/e/${w.experiment}/t/${w.sequence}`}>{w.sequence}</Go></td><td>{w.gpus}</td><td>{w.reason.text}</td></tr>)}</tbody></table></div></Card>}
    </div>
  </>
}
