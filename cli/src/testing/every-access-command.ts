// What the commands for access and members print and return; see every-command.ts.
import type { Row } from './command-row.ts'

const HERE = ['-p', 'shop', '-e', 'pr-42']
const SERIAL = '4711204938812345'
const ssh = (code: string) => (_: unknown, one: { env: Record<string, string> }) =>
  Object.assign(one.env, { FAKE_SSH: code })

export const ACCESS_ROWS: Record<string, Row> = {
  // it runs until its right ends, which the server of the test says at once
  forward: {
    args: ['0:5432', '-s', 'db', ...HERE],
    pipe: /^127\.0\.0\.1:\d+\tdb\t5432\n$/,
    shown: /Forwarding 127\.0\.0\.1:\d+ → db:5432 of shop \/ pr-42 on fra-1[\s\S]*access was ended/,
    json: 'lines',
    changes: 'POST /api/servers/2/ssh',
    exits: [
      [1, ['0:5432', ...HERE], ssh('255')],
      [1, ['0:5432', ...HERE], ssh('44')],
      [2, ['db', ...HERE]],
      [2, ['0', ...HERE]],
      [2, ['1:2:3:4', ...HERE]],
      [2, ['5432', '5432', ...HERE]],
    ],
  },
  copy: {
    args: ['{folder}/key.pub', 'web:/tmp/', ...HERE],
    pipe: /^1\t25\tweb:\/tmp\/\n$/,
    shown: /Copied 1 file, 25 B to web:\/tmp\/ \(shop \/ pr-42\)/,
    changes: 'POST /api/servers/2/ssh',
    exits: [
      [0, ['web:/data/hello.txt', '{folder}/hello.txt', ...HERE]],
      [6, ['web:/data/hello.txt', '{folder}/key.pub', ...HERE]],
      [0, ['web:/data/hello.txt', '{folder}/key.pub', '--force', ...HERE]],
      [2, ['web:/data', 'db:/data', ...HERE]],
      [2, ['./a', './b', ...HERE]],
      [5, ['{folder}/absent', 'web:/tmp/', ...HERE]],
      [1, ['{folder}/key.pub', 'web:/tmp/', ...HERE], ssh('44')],
      [6, ['{folder}/key.pub', 'web:/tmp/', ...HERE], ssh('77')],
    ],
  },
  'ssh list': {
    pipe: new RegExp(`^${SERIAL}\tAda Lovelace\tfra-1\tpr-42\tforward\tactive\t`),
    shown: /SERIAL[\s\S]*forward db:5432[\s\S]*open, began/,
  },
  'ssh revoke': {
    args: [SERIAL],
    pipe: new RegExp(`^${SERIAL}\n$`),
    shown: new RegExp(`Revoked ${SERIAL} of Ada Lovelace on fra-1`),
    changes: `DELETE /api/servers/2/ssh/${SERIAL}`,
    exits: [
      [0, ['--mine', '--yes']],
      [2, ['--mine']],
      [2, []],
      [2, ['all']],
      [5, ['4712']],
    ],
  },
  'server pause': {
    args: ['fra-1'],
    pipe: /^2\tfra-1\tpaused\n$/,
    shown: /fra-1 is paused\. What runs goes on/,
    changes: 'PATCH /api/servers/2',
  },
  'server resume': {
    args: ['fra-1'],
    pipe: /^2\tfra-1\tin service\n$/,
    shown: /fra-1 is in service already/,
    changes: 'PATCH /api/servers/2',
  },
  'orgs create': {
    args: ['Acme', '--slug', 'acme'],
    pipe: /^1\tacme\tAcme\n$/,
    shown: /Created Acme, and you own it\. Work in it: berth org use acme/,
    changes: 'POST /api/organizations',
    exits: [[2, ['Acme', '--slug', 'A B']]],
  },
  'orgs rename': {
    args: ['Acme'],
    pipe: /^1\tacme\tAcme\n$/,
    shown: /Acme \(acme\) is now Acme \(acme\)/,
    changes: 'PATCH /api/organizations/1',
    exits: [[2, []]],
  },
  'orgs remove': {
    args: ['--confirm', 'acme'],
    pipe: /^1\tacme\n$/,
    shown: /Acme is removed/,
    changes: 'DELETE /api/organizations/1',
    exits: [[2, []]],
  },
  'user role': {
    args: ['ada@example.com', 'admin'],
    pipe: /^7\tada@example\.com\tadmin\n$/,
    shown: /Ada Lovelace is admin in Acme already/,
    changes: 'PATCH /api/organizations/1/members/7',
    exits: [
      [2, ['ada@example.com', 'boss']],
      [5, ['nobody@example.com', 'admin']],
    ],
  },
  'user remove': {
    args: ['ada@example.com', '--yes'],
    pipe: /^7\tada@example\.com\n$/,
    shown: /Ada Lovelace has left Acme/,
    changes: 'DELETE /api/organizations/1/members/7',
    exits: [[2, ['ada@example.com']]],
  },
  'user invitations': {
    pipe: /^31\tgrace@example\.com\tdeveloper\tAda Lovelace\tpending\n$/,
    shown: /grace@example\.com/,
  },
  'user uninvite': {
    args: ['grace@example.com'],
    pipe: /^31\tgrace@example\.com\n$/,
    shown: /Withdrew the invitation of grace@example\.com/,
    changes: 'DELETE /api/organizations/1/invitations/31',
    exits: [[5, ['nobody@example.com']]],
  },
}
