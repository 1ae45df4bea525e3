-- The role with which Grafana reads: only the views, only for 30 s per query. Safe to repeat.
-- The password is the setting tocsin.grafana_password of this session.
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'grafana') THEN
    CREATE ROLE grafana LOGIN;
  END IF;
  EXECUTE format('ALTER ROLE grafana PASSWORD %L', current_setting('tocsin.grafana_password'));
END
$$;
ALTER ROLE grafana SET default_transaction_read_only = on;
ALTER ROLE grafana SET statement_timeout = '30s';
GRANT SELECT ON runs, alerts, incidents, metrics_long, metrics_latest, nonfinite_values TO grafana;
