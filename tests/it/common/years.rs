//! Uses in past years, as a server would have counted them then.

use std::path::Path;

use frs_engine::{Answers, Command, ItemOptions, Request, Role, Service};
use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;

/// Uses of a key in the middle of a year.
#[derive(Debug, Clone, Copy)]
pub struct Before<'a> {
    pub biz: &'a str,
    pub key: &'a str,
    pub years_ago: i16,
    pub count: i32,
}

/// Charges uses in the files of a running server. The oldest must be first.
pub fn charge(data_dir: &Path, uses: &[Before<'_>]) {
    let mut service = Service::attach(data_dir, Role::Program, None).expect("attached");
    for &Before { biz, key, years_ago, count } in uses {
        let year = Timestamp::now().to_zoned(TimeZone::UTC).year() - years_ago;
        let then = date(year, 7, 1).to_zoned(TimeZone::UTC).expect("a date").timestamp();
        let (mut request, mut answers) = (Request::default(), Answers::default());
        request.begin(Command::Update);
        request.push(biz, key, ItemOptions::of(count));
        service.begin_tick();
        service.run(&request, then.as_millisecond() as u64, &mut answers);
        assert!(answers.items[0].result.is_ok(), "{answers:?}");
    }
}
