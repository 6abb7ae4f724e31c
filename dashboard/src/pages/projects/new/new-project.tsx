// A new project, from the repository to its first deployment, on one page. Once it is created, its id is in the address:
// a reload shows how far it is.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { trpc } from '../../../api.ts'
import { Page } from '../../../components/page.tsx'
import { Empty, Loaded } from '../../../components/states.tsx'
import { useServers } from '../../../data.ts'
import { useOrganization, usePermission } from '../../../organization.ts'
import { Asking } from './asking.tsx'
import { type Plan, SetUp } from './set-up.tsx'

const trail = <Link to="/">Projects</Link>

export function NewProject() {
  const { project, secret } = useSearch({ strict: false }) as { project?: number; secret?: string }
  const mayCreate = usePermission('project:write')
  const navigate = useNavigate()
  const [plan, setPlan] = useState<Plan>()
  const id = Number(project)
  if (Number.isSafeInteger(id) && id > 0) {
    return <SetUp key={id} id={id} {...(secret ? { secret } : {})} {...(plan ? { plan } : {})} />
  }
  if (!mayCreate) {
    return (
      <Page title="New project" trail={trail}>
        <Empty title="Your role does not let you create projects">
          <p>Ask an owner or an administrator of the organization.</p>
        </Empty>
      </Page>
    )
  }
  return (
    <Page title="New project" trail={trail}>
      <Servers>
        {(servers) => (
          <Asking
            servers={servers}
            onMade={async (made, next) => {
              setPlan(next)
              await navigate({
                to: '/projects/new',
                search: {
                  project: made.id,
                  ...(made.secret_id && !next.connectionId ? { secret: made.secret_id } : {}),
                },
                replace: true,
              })
            }}
          />
        )}
      </Servers>
    </Page>
  )
}

type List = NonNullable<ReturnType<typeof useServers>['data']>['servers']

function Servers({ children }: { children(list: List): React.ReactNode }) {
  const servers = useServers()
  const organization_id = useOrganization()?.id
  // the choice of a repository, which is above the rest of the form
  const connections = useQuery({
    ...trpc.forge.list.queryOptions({ organization_id: organization_id ?? 0 }),
    enabled: organization_id !== undefined,
  })
  return (
    <Loaded query={servers} also={[connections]} what="Servers">
      {({ servers: list }) =>
        list.length === 0 ? (
          <Empty title="A project needs a server">
            <p>
              <Link to="/servers" search={{ add: 'true' }}>
                Add a server first
              </Link>
              , then come back.
            </p>
          </Empty>
        ) : (
          children(list)
        )
      }
    </Loaded>
  )
}
