import { expect, test } from 'vitest'
import type { Environment, Server } from '../../../data.ts'
import { type Known, listWaiting, stepsDone } from './watched.ts'

const environment = (over: Partial<Environment>): Environment =>
  ({
    id: 7,
    identifier: 'staging',
    type: 'manual',
    status: 'running',
    status_reason: null,
    locked: false,
    last_task: null,
    deployed: null,
    ...over,
  }) as Environment
const server = (over: Partial<Server>): Server =>
  ({ id: 3, name: 'fra-1', status: 'online', joined_at: null, ...over }) as Server
const known = (over: {
  environments?: Environment[]
  limit?: number
  servers?: Server[]
  overview?: Partial<NonNullable<Known['overview']>>
}): Known => ({
  projects: [{ id: 1, name: 'shop' } as Known['projects'][number]],
  servers: over.servers ?? [],
  environments: new Map([
    [
      1,
      {
        environments: over.environments ?? [],
        used: over.environments?.length ?? 0,
        limit: over.limit ?? 20,
      },
    ],
  ]),
  overview: { activity: [], approvals: [], broken_forges: [], ...over.overview },
})
const keys = (of: Known): string[] => listWaiting(of).map(({ key }) => key)

test('a quiet installation asks for nothing', () => {
  expect(keys(known({ environments: [environment({})], servers: [server({})] }))).toEqual([])
})

test('what a person decides comes first, then what is broken, then what is full', () => {
  const all = known({
    limit: 2,
    environments: [
      environment({ id: 7, status: 'failed', last_task: { id: 9, status: 'failed' } as never }),
      environment({ id: 8, status: 'degraded', status_reason: 'web ended 5 times' }),
    ],
    servers: [server({ status: 'offline' })],
    overview: {
      approvals: [
        {
          project: { id: 1, name: 'shop' },
          number: 51,
          title: 'Totals',
          author: 'mallory',
          url: '',
          head_sha: null,
          since: null,
        },
      ],
      broken_forges: [{ project: { id: 1, name: 'shop' }, checked_at: null }],
    },
  })
  expect(keys(all)).toEqual([
    'approval 1 51',
    'server 3',
    'forge 1',
    'failed 7',
    'degraded 8',
    'full 1',
  ])
  expect(listWaiting(all).find(({ key }) => key === 'failed 7')?.to).toBe('/tasks/9')
})

test('a failed environment that deploys again waits for no person', () => {
  const again = environment({ status: 'failed', locked: true })
  expect(keys(known({ environments: [again] }))).toEqual([])
})

test('the steps of the first run tick by themselves', () => {
  expect(stepsDone({ ...known({}), projects: [] }, 0)).toEqual({
    server: false,
    forge: false,
    project: false,
    deployment: false,
    preview: false,
  })
  const preview = environment({ type: 'pull_request', deployed: {} as never })
  const full = known({ servers: [server({ joined_at: 'x' })], environments: [preview] })
  expect(Object.values(stepsDone(full, 1))).toEqual([true, true, true, true, true])
})
