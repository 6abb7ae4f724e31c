// Restart, stop and start of an environment or one service of it, without a deployment.
import type { LifecycleVerb } from '@berth/shared'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Menu, MenuButton } from '../../components/menu.tsx'
import type { Environment } from '../../data.ts'

type Service = Environment['services'][number]

const WORDS: Record<LifecycleVerb, readonly [label: string, done: string]> = {
  restart: ['Restart', 'Restart requested.'],
  stop: ['Stop', 'Stop requested.'],
  start: ['Start', 'Start requested.'],
}

/** What makes sense now; the server decides. */
function verbsFor(e: Environment, service: Service | undefined): LifecycleVerb[] {
  if (service?.status === 'unmanaged') return []
  const stopped = service
    ? Number(service.status === 'stopped')
    : e.services.filter(({ status }) => status === 'stopped').length
  const all = service ? 1 : e.services.filter(({ status }) => status !== 'unmanaged').length
  if (all === 0) return []
  return [
    ...(stopped > 0 ? (['start'] as const) : []),
    ...(stopped < all ? (['restart', 'stop'] as const) : []),
  ]
}

function explain(verb: LifecycleVerb, what: string): string {
  switch (verb) {
    case 'restart':
      return `${what} is away for a moment. The version stays the same.`
    case 'stop':
      return `${what} stays stopped, also after a restart of its server, until you start or deploy it. Its address shows a page that says so.`
    case 'start':
      return `${what} starts with the version and the variables of the last deployment.`
  }
}

export function LifecycleMenu({
  environment: e,
  service,
}: {
  environment: Environment
  service?: Service
}) {
  const [asked, ask] = useState<LifecycleVerb | null>(null)
  const verbs = verbsFor(e, service)
  const what = service ? service.name : e.identifier
  // without the right to act, or while a deployment holds the lock, there is nothing to offer
  if (verbs.length === 0 || (!e.may.includes('act') && asked === null)) return null
  const send = (verb: LifecycleVerb) =>
    change(
      api.environment.lifecycle.mutate({
        environment_id: e.id,
        verb,
        ...(service ? { service: service.name } : {}),
      }),
    )
  return (
    <>
      <Menu label={`Restart, stop or start ${what}`} face="⋯" kind="plain" small={Boolean(service)}>
        {verbs.map((verb) => (
          <MenuButton key={verb} onClick={() => ask(verb)}>
            {WORDS[verb][0]} {what}
          </MenuButton>
        ))}
      </Menu>
      {asked && (
        <Ask
          title={`${WORDS[asked][0]} ${what}?`}
          submit={WORDS[asked][0]}
          kind={asked === 'stop' ? 'danger' : 'main'}
          send={() => send(asked)}
          done={WORDS[asked][1]}
          onClose={() => ask(null)}
        >
          <p>{explain(asked, what)}</p>
        </Ask>
      )}
    </>
  )
}
