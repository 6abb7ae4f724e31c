// Restart, stop and start of an environment or one service of it, without a deployment.
import type { LifecycleVerb } from '@berth/shared'
import { useState } from 'react'
import { api, change } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Icon } from '../../components/icon.tsx'
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
      return `${what} is unavailable for a moment. The version stays the same.`
    case 'stop':
      return `${what} stays stopped until you start or deploy it, even if its server restarts. Visitors see a page that says so.`
    case 'start':
      return `${what} starts with the version and variables of the last deployment.`
  }
}

interface LifecycleProps {
  environment: Environment
  /** Undefined: all of them. */
  service?: Service
}

/** The confirmation of one verb. */
function AskFor(props: LifecycleProps & { verb: LifecycleVerb; onClose(): void }) {
  const { environment: e, service, verb, onClose } = props
  const what = service ? service.name : e.identifier
  const [label, done] = WORDS[verb]
  const send = () =>
    change(
      api.environment.lifecycle.mutate({
        environment_id: e.id,
        verb,
        ...(service ? { service: service.name } : {}),
      }),
    )
  return (
    <Ask
      title={`${label} ${what}?`}
      submit={label}
      kind={verb === 'stop' ? 'danger' : 'main'}
      send={send}
      done={done}
      onClose={onClose}
    >
      <p>{explain(verb, what)}</p>
    </Ask>
  )
}

/** Of the whole environment; Start, while everything is stopped. */
export function RestartButton({ environment: e }: { environment: Environment }) {
  const [asked, ask] = useState<LifecycleVerb | null>(null)
  const verbs = verbsFor(e, undefined)
  if ((verbs.length === 0 || !e.may.includes('act')) && asked === null) return null
  const verb = verbs.includes('restart') ? 'restart' : 'start'
  return (
    <>
      <Button onClick={() => ask(verb)}>{WORDS[verb][0]}</Button>
      {asked && <AskFor environment={e} verb={asked} onClose={() => ask(null)} />}
    </>
  )
}

/** For a service, every verb; for the environment, those that have no button of their own. */
export function LifecycleMenu({ environment: e, service }: LifecycleProps) {
  const [asked, ask] = useState<LifecycleVerb | null>(null)
  const all = verbsFor(e, service)
  const verbs = service
    ? all
    : all.filter((verb) => verb !== 'restart' && (verb !== 'start' || all.includes('restart')))
  const what = service ? service.name : e.identifier
  // without the right to act, or while a deployment holds the lock, there is nothing to offer
  if ((verbs.length === 0 || !e.may.includes('act')) && asked === null) return null
  return (
    <>
      <Menu
        label={service ? `Restart, stop or start ${what}` : `More actions for ${what}`}
        face={<Icon name="more" />}
        kind={service ? 'quiet' : 'plain'}
        small={Boolean(service)}
      >
        {verbs.map((verb) => (
          <MenuButton key={verb} onClick={() => ask(verb)}>
            {WORDS[verb][0]} {what}
          </MenuButton>
        ))}
      </Menu>
      {asked && (
        <AskFor
          environment={e}
          verb={asked}
          onClose={() => ask(null)}
          {...(service ? { service } : {})}
        />
      )}
    </>
  )
}
