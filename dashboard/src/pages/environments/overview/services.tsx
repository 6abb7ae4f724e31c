// The services of an environment, each in a row: state, version, restarts, and what it uses now.
import { useQuery } from '@tanstack/react-query'
import { Section } from '../../../components/page.tsx'
import { Status } from '../../../components/status.tsx'
import type { Environment } from '../../../data.ts'
import { bytes, count, short } from '../../../format.ts'
import { LifecycleMenu } from '../lifecycle.tsx'
import { metricsOptions, percent } from './measures.ts'
import css from './overview.module.css'

export function Services({ environment: e }: { environment: Environment }) {
  const { data } = useQuery(metricsOptions(e.id, 'hour'))
  if (e.commit_sha === null) return null
  return (
    <Section title="Services" isBare>
      {e.services.length === 0 ? (
        <p className="muted">This version has no services.</p>
      ) : (
        <ul className={css.services}>
          {e.services.map((service) => (
            <ServiceRow
              key={service.name}
              environment={e}
              service={service}
              use={data?.latest?.services.find((of) => of.name === service.name)}
            />
          ))}
        </ul>
      )}
    </Section>
  )
}

interface ServiceProps {
  environment: Environment
  service: Environment['services'][number]
  use: { cpu_percent: number; memory_bytes: number } | undefined
}

function ServiceRow({ environment: e, service: s, use }: ServiceProps) {
  return (
    <li className={css.service}>
      <div className={css.name}>
        <strong>{s.name}</strong>
        <Status of={s.status} />
        {s.replicas && (
          <span className="muted">
            {s.replicas.running} of {s.replicas.wanted} replicas
          </span>
        )}
      </div>
      <div className={css.details}>
        {s.url && (
          <a href={s.url} rel="noreferrer">
            {s.url.replace(/^https?:\/\//, '')}
          </a>
        )}
        {s.image ? <span>{s.image}</span> : <code>{short(e.commit_sha)}</code>}
        {s.restarts > 0 && <span className={css.loud}>{count(s.restarts, 'restart')}</span>}
        {use && (
          <span className={css.figures}>
            <span>{percent(use.cpu_percent)} CPU</span>
            <span>{bytes(use.memory_bytes)}</span>
          </span>
        )}
      </div>
      <div className={css.menu}>
        <LifecycleMenu environment={e} service={s} />
      </div>
    </li>
  )
}
