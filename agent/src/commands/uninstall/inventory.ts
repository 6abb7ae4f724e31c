// What of environments is on this server: from the ledger, from folders, accounts and labels of the engine, because
// each of them may be lost. Without an environment nothing that people care about goes with an uninstallation.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Ledger, ledgerFile } from '../../journal/ledger.ts'
import { UNINSTALL } from '../../limits/maintenance.ts'
import { listFolder } from '../../machine/files.ts'
import { listEnvironmentAccounts } from '../../machine/users/users.ts'
import { type AgentSettings, environmentDir } from '../../settings.ts'
import type { EngineObject } from './engine.ts'

export interface EnvironmentHere {
  id: number
  /** As people call it; empty: not known here. */
  name: string
  services: number
  containers: number
  volumes: string[]
}

/** Undefined if there is none, or it cannot be read. */
export function openLedger(settings: AgentSettings): Ledger | undefined {
  if (!existsSync(ledgerFile(settings))) return undefined
  try {
    return new Ledger(settings)
  } catch {
    return undefined // damaged: folders, accounts and labels say what is here
  }
}

const FOLDERS = ['environments', 'artifacts', 'static', 'backups']

export function listEnvironmentIds(
  settings: AgentSettings,
  ledger: Ledger | undefined,
  objects: readonly EngineObject[],
): number[] {
  const folders = FOLDERS.flatMap((name) => listFolder(join(settings.stateDir, name))).flatMap(
    (name) => /^e([1-9]\d*)$/.exec(name)?.[1] ?? [],
  )
  const accounts = listEnvironmentAccounts(settings.accountPrefix, (id) =>
    environmentDir(settings, id),
  )
  const ids = [
    ...folders.map(Number),
    ...accounts.keys(),
    ...objects.map(({ environmentId }) => environmentId),
    ...(ledger?.listPlans() ?? []).map(({ environmentId }) => environmentId),
    ...(ledger?.listProcesses() ?? []).map(({ environmentId }) => environmentId),
  ]
  return [...new Set(ids)].filter((id) => id > 0).sort((a, b) => a - b)
}

export function listEnvironments(
  settings: AgentSettings,
  ledger: Ledger | undefined,
  objects: readonly EngineObject[],
): EnvironmentHere[] {
  const names = new Map((ledger?.usage.list() ?? []).map((one) => [one.environmentId, one.name]))
  return listEnvironmentIds(settings, ledger, objects).map((id) => {
    const own = objects.filter(({ environmentId }) => environmentId === id)
    return {
      id,
      name: names.get(id) ?? '',
      services: ledger?.listProcesses(id).length ?? 0,
      containers: own.filter(({ kind }) => kind === 'container').length,
      volumes: own.filter(({ kind }) => kind === 'volume').flatMap((one) => one.names),
    }
  })
}

const count = (n: number, word: string): string[] =>
  n > 0 ? [`${n} ${word}${n === 1 ? '' : 's'}`] : []

/** One line for each: what its removal loses. PURE. */
export function describeEnvironment({
  id,
  name,
  services,
  containers,
  volumes,
}: EnvironmentHere): string {
  const shown = volumes.slice(0, UNINSTALL.shownNames).join(', ')
  const more = volumes.length - UNINSTALL.shownNames
  const parts = [
    ...count(services, 'service'),
    ...count(containers, 'container'),
    ...(volumes.length > 0
      ? [`the data of ${shown}${more > 0 ? ` and ${more} more volumes` : ''}`]
      : []),
    'its files, logs, artifacts and backups on this disk',
  ]
  return `${name ? `${name} (environment ${id})` : `environment ${id}`}: ${parts.join(', ')}`
}
