// What the commands of variables print and return, for every.test.ts.
import type { Row } from './command-row.ts'
import type { Peer } from './peer.ts'
import { failedTask, SHA } from './samples.ts'

const HERE = ['-p', 'shop', '-e', 'pr-42']
const SHOP = ['-p', 'shop']
const fails = (peer: Peer) => peer.script('GET /api/tasks/813', { json: failedTask({ id: 813 }) })

export const VARIABLE_ROWS: Record<string, Row> = {
  'vars list': { args: HERE, pipe: /^APP_KEY\t/, shown: /values are never shown/ },
  'vars set': {
    args: [...HERE, 'APP_KEY=s3cret'],
    pipe: /^$/,
    shown: /Set APP_KEY[\s\S]*Variables changed since the last deployment/,
    changes: 'PATCH /api/environments/101/variables',
    exits: [[2, [...HERE, 'APP_KEY']]],
  },
  'vars unset': {
    args: [...HERE, 'APP_KEY'],
    pipe: /^$/,
    shown: /Variables changed since the last deployment/,
    changes: 'PATCH /api/environments/101/variables',
  },
  'vars generate': {
    args: [...SHOP, '--for', 'previews', 'APP_KEY', '--length', '40'],
    pipe: /^$/,
    shown: /Set APP_KEY on all previews of shop[\s\S]*in pr-42\. Apply with: berth deploy/,
    changes: 'PATCH /api/projects/12/variables',
    exits: [
      [2, [...HERE, 'APP_KEY', '--length', '3']],
      [2, [...HERE, '--for', 'previews', 'APP_KEY']],
    ],
  },
  'vars forks': {
    args: [...SHOP, '--for', 'previews', 'APP_KEY', '--deploy'],
    pipe: new RegExp(`^813\tqueued\tshop\tpr-42\t${SHA}\t-\n$`),
    shown: /Forks get APP_KEY[\s\S]*Task 813 {2}shop \/ pr-42/,
    changes: 'PATCH /api/projects/12/variables',
    exits: [
      [2, [...SHOP, 'APP_KEY']],
      [3, [...SHOP, '--for', 'project', 'APP_KEY', '--deploy', '--wait'], fails],
    ],
  },
  'vars import': {
    args: [...HERE, '{folder}/vars'],
    pipe: /^$/,
    shown: /Set APP_KEY on shop \/ pr-42/,
    changes: 'PATCH /api/environments/101/variables',
    exits: [[2, [...HERE, 'no-file']]],
  },
  'vars export': {
    args: HERE,
    pipe: /^# Variables of shop \/ pr-42\. .*\n\n# environment\nAPP_KEY=\n$/,
    shown: /APP_KEY=/,
  },
  'vars history': {
    args: [...HERE, 'APP_KEY'],
    pipe: /\tAda Lovelace\tpreviews\tpreviews\tset APP_KEY; unset OLD; forks get APP_KEY\n$/,
    shown: /WHEN .*CHANGE/,
    exits: [[2, [...HERE, '--limit', '0']]],
  },
}
